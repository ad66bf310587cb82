#include <adjoint/nn/module.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/module_state.h>

#include <algorithm>
#include <unordered_set>

namespace adjoint::nn {

namespace {

// The tensors in the slots that each module gives, under their paths, each tensor once.
template <class F>
NamedTensors collect(const std::vector<std::pair<std::string, Module>>& modules, const F& slots_of) {
  NamedTensors all;
  std::unordered_set<const TensorImpl*> seen;
  for (const auto& [path, module] : modules) {
    for (const auto& slot : slots_of(module)) {
      if (slot->tensor.defined() && seen.insert(slot->tensor.impl()).second) {
        all.emplace_back(detail::join(path, slot->name), slot->tensor);
      }
    }
  }
  return all;
}

template <class T>
std::vector<T> unnamed(const std::vector<std::pair<std::string, T>>& named) {
  std::vector<T> all;
  for (const auto& [name, value] : named) all.push_back(value);
  return all;
}

// Makes `tensor` a handle on another tensor's elements. Everyone who shares the handle sees it.
void replace_elements(Tensor& tensor, const Tensor& source) {
  TensorImpl& impl = *tensor.impl();
  impl.storage = source.impl()->storage;
  impl.strides = source.strides();
  impl.offset = source.storage_offset();
  impl.dtype = source.dtype();
  impl.contiguous = source.impl()->contiguous;
  impl.channels_last = source.impl()->channels_last;
}

}  // namespace

Module::Module(std::string type) : state_(std::make_shared<State>()) { state_->type = std::move(type); }

Module& Module::operator=(const Module& other) {
  if (state_ != nullptr && state_ != other.state_ && !detail::AllDepart::on()) {
    std::size_t count = 0;
    state_->for_each_slot([&](const detail::Slot&) { ++count; });
    detail::reserve_departures(count);
    state_->for_each_slot([&](const detail::Slot& slot) { detail::depart(slot, other.state_.get()); });
  }
  state_ = other.state_;
  return *this;
}

Module& Module::operator=(Module&& other) {
  if (this == &other) return *this;
  *this = std::as_const(other);
  other.state_.reset();
  return *this;
}

Module::State& Module::state(const char* op) const {
  detail::settle();
  ADJOINT_CHECK(state_ != nullptr,
                "{}: the module must not have been moved from; got an empty one; assign a module to it first", op);
  return *state_;
}

const std::string& Module::type() const { return state("Module::type").type; }
bool Module::training() const { return state("Module::training").training; }
void Module::set_description(std::string text) { state("Module::set_description").description = std::move(text); }

// ---- Contents.

std::vector<std::pair<std::string, Module>> Module::named_children() const {
  std::vector<std::pair<std::string, Module>> all;
  for (const auto& slot : state("named_children").children) {
    if (slot->module) all.emplace_back(slot->name, *slot->module);
  }
  return all;
}

std::vector<std::pair<std::string, Module>> Module::named_modules() const {
  check_not_moved_from("named_modules");
  std::vector<std::pair<std::string, Module>> all;
  list_modules("", all);
  return all;
}

void Module::list_modules(const std::string& path, std::vector<std::pair<std::string, Module>>& all) const {
  all.emplace_back(path, *this);
  for (const auto& slot : state_->children) {
    if (slot->module) slot->module->list_modules(detail::join(path, slot->name), all);
  }
}

void Module::apply(const std::function<void(Module& module)>& f) const {
  std::vector<Module> all;
  for (const auto& slot : state("Module::apply").below()) all.push_back(*slot->module);
  all.push_back(*this);
  for (Module& module : all) f(module);
}

void Module::each_below(const std::function<void(const std::any& own)>& f) const {
  std::vector<std::any> all;
  for (const auto& slot : state("Module::visit").below()) all.push_back(slot->own);
  for (const std::any& own : all) f(own);
}

NamedTensors Module::named_parameters() const {
  check_not_moved_from("named_parameters");
  return collect(named_modules(), [](const Module& module) -> const TensorSlots& { return module.state_->parameters; });
}

NamedTensors Module::named_buffers() const {
  check_not_moved_from("named_buffers");
  return collect(named_modules(), [](const Module& module) -> const TensorSlots& { return module.state_->buffers; });
}

std::vector<Tensor> Module::parameters() const {
  check_not_moved_from("parameters");
  return unnamed(named_parameters());
}

std::vector<Tensor> Module::buffers() const {
  check_not_moved_from("buffers");
  return unnamed(named_buffers());
}

std::vector<Module> Module::children() const {
  check_not_moved_from("children");
  return unnamed(named_children());
}

std::vector<Module> Module::modules() const {
  check_not_moved_from("modules");
  return unnamed(named_modules());
}

Module Module::get_submodule(const std::string& path) const {
  check_not_moved_from("get_submodule");
  const auto all = named_modules();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& module) { return module.first == path; });
  ADJOINT_CHECK(found != all.end(), "get_submodule: the path must be a module's; got '{}' in {}", path, type());
  return found->second;
}

std::int64_t Module::num_parameters() const {
  check_not_moved_from("num_parameters");
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

// ---- Whole-tree operations.

template <class F>
void Module::move_tensors(const char* op, const F& moved) const {
  const OpScope scope(op);
  check_not_moved_from(op);
  ADJOINT_CHECK(
      Tape::current() == nullptr,
      "{}: a module must not move while a tape records; got a live tape; move it before the tape or under PauseTape",
      op);
  for (const auto& [name, tensor] : named_parameters()) {
    ADJOINT_CHECK(tensor.impl()->storage->forms() == nullptr,
                  "{}: a module must not move while it is frozen; got frozen parameter '{}'; unfreeze it first", op,
                  name);
  }
  // Makes all copies before anything changes, so that running out of memory leaves the module unchanged.
  std::vector<std::pair<Tensor, Tensor>> replacements;
  for (const NamedTensors& tensors : {named_parameters(), named_buffers()}) {
    for (const auto& [name, tensor] : tensors) {
      replacements.emplace_back(tensor, moved(tensor));
      if (tensor.grad().defined()) replacements.emplace_back(tensor.grad(), moved(tensor.grad()));
    }
  }
  for (auto& [tensor, source] : replacements) {
    if (source.impl() != tensor.impl()) replace_elements(tensor, source);
  }
}

void Module::to(Device device) {
  move_tensors("Module::to", [&](const Tensor& tensor) { return tensor.to(device); });
}

void Module::to(DType dtype) {
  ADJOINT_CHECK(is_floating_point(dtype), "Module::to: the dtype must be floating point; got {}", dtype);
  move_tensors("Module::to",
               [&](const Tensor& tensor) { return is_floating_point(tensor.dtype()) ? tensor.to(dtype) : tensor; });
}

void Module::to(MemoryFormat format) {
  std::unordered_set<const TensorImpl*> filters;
  for (const auto& [path, module] : named_modules()) {
    if (!module.type().starts_with("Conv")) continue;
    for (const auto& [name, tensor] : module.named_parameters()) {
      if (tensor.dim() < 3 || !has_format(tensor.shape().size(), format)) continue;
      filters.insert(tensor.impl());
      filters.insert(tensor.grad().impl());
    }
  }
  move_tensors("Module::to", [&](const Tensor& t) { return filters.contains(t.impl()) ? t.to(format) : t; });
}

void Module::train(bool on) {
  State& own = state("Module::train");
  own.training = on;
  for (const auto& slot : own.children) {
    if (slot->module) slot->module->train(on);
  }
}

void Module::zero_grad() {
  check_not_moved_from("Module::zero_grad");
  for (Tensor& parameter : parameters()) parameter.set_grad({});
}

void Module::requires_grad_(bool value) {
  check_not_moved_from("Module::requires_grad_");
  for (Tensor& parameter : parameters()) parameter.requires_grad_(value);
}

}  // namespace adjoint::nn

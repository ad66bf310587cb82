#include <adjoint/nn/module.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/nn/module_state.h>
#include <adjoint/nn/renames.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

namespace adjoint::nn {

namespace {

// Threads may put one module into trees of their own.
std::mutex places_guard;

thread_local const void* profiled_module = nullptr;  // whose call is the innermost

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

// The tensors in the slots that each module gives, under their paths, each tensor once.
template <class F>
NamedTensors collect(const std::vector<std::pair<std::string, Module>>& modules, const F& slots_of) {
  NamedTensors all;
  std::unordered_set<const TensorImpl*> seen;
  for (const auto& [path, module] : modules) {
    for (const auto& slot : slots_of(module)) {
      if (slot->tensor.defined() && seen.insert(slot->tensor.impl()).second) {
        all.emplace_back(join(path, slot->name), slot->tensor);
      }
    }
  }
  return all;
}

// Whether both are the same elements in the same order.
bool same_elements(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage && a.storage_offset() == b.storage_offset() && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

// Makes `tensor` the handle of another tensor's elements. Everyone who shares the handle sees it.
void replace_elements(Tensor& tensor, const Tensor& source) {
  TensorImpl& impl = *tensor.impl();
  impl.storage = source.impl()->storage;
  impl.strides = source.strides();
  impl.offset = source.storage_offset();
  impl.dtype = source.dtype();
  impl.contiguous = source.is_contiguous();
}

std::string list(const char* title, const std::vector<std::string>& items) {
  return items.empty() ? std::string() : fmt::format("; {}: {}", title, fmt::join(items, ", "));
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

// ---- What is inside.

std::vector<std::pair<std::string, Module>> Module::named_children() const {
  std::vector<std::pair<std::string, Module>> all;
  for (const auto& slot : state("named_children").children) {
    if (slot->module) all.emplace_back(slot->name, *slot->module);
  }
  return all;
}

std::vector<std::pair<std::string, Module>> Module::named_modules() const {
  std::vector<std::pair<std::string, Module>> all{{"", *this}};
  for (const auto& slot : state("named_modules").children) {
    if (!slot->module) continue;
    for (const auto& [path, module] : slot->module->named_modules()) {
      all.emplace_back(path.empty() ? slot->name : slot->name + "." + path, module);
    }
  }
  return all;
}

std::string Module::State::path(bool typed) const {
  std::vector<std::shared_ptr<const ChildSlot>> held;  // let go once the guard is
  std::shared_ptr<const State> owner;
  {
    const std::lock_guard lock(places_guard);
    for (auto place = places.begin(); place != places.end() && owner == nullptr; ++place) {
      held.push_back(place->lock());
      const auto& slot = held.back();
      if (slot == nullptr || !slot->module || slot->module->state_.get() != this) continue;
      owner = std::static_pointer_cast<const State>(slot->owner.lock());
    }
  }
  if (owner == nullptr) return typed ? type : std::string();
  return join(owner->path(typed), held.back()->name);
}

void Module::State::list_below(std::vector<std::shared_ptr<ChildSlot>>& all,
                               std::unordered_set<const State*>& seen) const {
  for (const auto& slot : children) {
    if (!slot->module || !seen.insert(slot->module->state_.get()).second) continue;
    slot->module->state_->list_below(all, seen);
    all.push_back(slot);
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

void detail::tell_path(const Module& module, Error& error) {
  if (module.state_ == nullptr) return;
  try {
    const std::string path = module.state_->path(), message = error.what();
    if (path.empty() || message.starts_with(path + ".") || message.starts_with(path + ": ")) return;
    // The same exception goes on, of whatever class.
    static_cast<std::runtime_error&>(error) = std::runtime_error(path + ": " + message);
  } catch (const std::bad_alloc&) {
    return;  // no memory for a longer message
  }
}

void detail::ProfiledModule::begin(const Module& module) {
  if (module.state_ == nullptr || module.state_.get() == profiled_module) return;
  const std::string path = module.state_->path(true);
  call_.begin_named(adjoint::detail::ProfiledKind::kModule, path.empty() ? "Module" : path, kCPU);
  if (call_) outer_ = std::exchange(profiled_module, module.state_.get());
}

void detail::ProfiledModule::end() noexcept { profiled_module = outer_; }

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
  std::vector<Tensor> all;
  for (const auto& [name, parameter] : named_parameters()) all.push_back(parameter);
  return all;
}

std::int64_t Module::num_parameters() const {
  check_not_moved_from("num_parameters");
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

// ---- State.

NamedTensors Module::state_dict() const {
  check_not_moved_from("state_dict");
  NamedTensors all;
  for (const auto& [path, module] : named_modules()) {
    for (const TensorSlots* slots : {&module.state_->parameters, &module.state_->buffers}) {
      for (const auto& slot : *slots) {
        if (slot->tensor.defined()) all.emplace_back(join(path, slot->name), slot->tensor.detach());
      }
    }
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> Module::state_aliases() const {
  check_not_moved_from("state_aliases");
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [path, module] : named_modules()) {
    for (const TensorSlots* slots : {&module.state_->parameters, &module.state_->buffers}) {
      for (const auto& slot : *slots) {
        if (!slot->alias.empty()) all.emplace_back(join(path, slot->alias), join(path, slot->name));
      }
    }
  }
  return all;
}

LoadReport Module::load_state_dict(const NamedTensors& state, const LoadOptions& options) {
  check_not_moved_from("load_state_dict");
  struct Given {
    const std::string* name;  // before any renaming
    const Tensor* tensor;
  };
  std::unordered_map<std::string, Given> given;
  std::unordered_map<std::string, std::string> aliases;
  const Renames renamed("load_state_dict", options.rename);
  for (auto& [alias, name] : state_aliases()) aliases.emplace(name, alias);
  for (const auto& [name, tensor] : state) {
    ADJOINT_CHECK(tensor.defined(), "load_state_dict: every tensor must be defined; got Tensor{{}} as '{}'", name);
    const std::string now = renamed(name);
    const auto [other, unique] = given.emplace(now, Given{&name, &tensor});
    ADJOINT_CHECK(unique || *other->second.name == name,
                  "load_state_dict: names must be unique; got '{}' for '{}' and '{}', by .rename", now,
                  *other->second.name, name);
    ADJOINT_CHECK(unique, "load_state_dict: names must be unique; got '{}' twice", name);
  }
  const PauseTape pause;
  LoadReport report;
  NamedTensors absent;
  std::vector<std::string> mismatched;
  std::vector<std::pair<Tensor, Tensor>> copies;  // to, from
  for (auto& [name, own] : state_dict()) {
    auto found = given.find(name);
    if (const auto alias = aliases.find(name); found == given.end() && alias != aliases.end()) {
      found = given.find(alias->second);
    }
    if (found == given.end()) {
      absent.emplace_back(name, own);
      continue;
    }
    const Tensor& source = *found->second.tensor;
    if (source.shape() != own.shape() && options.ignore_mismatched_sizes) {
      report.mismatched.push_back(name);
      given.erase(found);
      continue;
    }
    if (source.shape() != own.shape() || (source.dtype() != own.dtype() && !options.convert_dtype)) {
      mismatched.push_back(fmt::format("{} (the module has {} {}, got {} {})", name, own.dtype(), own.shape(),
                                       source.dtype(), source.shape()));
    }
    copies.emplace_back(own, source);
    given.erase(found);
  }
  for (const auto& [name, own] : absent) {
    const bool tied = std::any_of(copies.begin(), copies.end(),
                                  [&, &own = own](const auto& copy) { return same_elements(own, copy.first); });
    if (!tied) report.missing.push_back(name);
  }
  std::unordered_set<const std::string*> left;
  for (const auto& [name, one] : given) left.insert(one.name);
  for (const auto& [name, tensor] : state) {
    if (left.contains(&name)) report.unexpected.push_back(name);
  }
  const bool names_fit = report.missing.empty() && report.unexpected.empty();
  ADJOINT_CHECK(mismatched.empty() && (names_fit || !options.strict),
                "load_state_dict: names, shapes and dtypes must be the module's ({}){}{}{}", type(),
                list("missing", report.missing), list("unexpected", report.unexpected), list("mismatched", mismatched));

  // Before anything is written, whatever may fail is done, and whatever is about to be overwritten is copied.
  std::unordered_set<const Storage*> written;
  for (const auto& [own, source] : copies) {
    check_writable("load_state_dict", own);
    written.insert(own.impl()->storage.get());
  }
  for (auto& [own, source] : copies) {
    const bool shared = written.contains(source.impl()->storage.get());
    source = source.detach().to(own.dtype()).to(own.device());
    const bool still_shared = shared && written.contains(source.impl()->storage.get());
    if (still_shared && !same_elements(own, source)) source = source.clone();
  }
  for (auto& [own, source] : copies) copy_into(source, own);
  return report;
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
  // All copies are made before anything changes, so that running out of memory leaves the module as it was.
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

// ---- Building.

std::shared_ptr<TensorSlot> detail::make_slot(const char* op, const std::string& name, const std::string& owner_type,
                                              const std::shared_ptr<const void>& owner, bool trained,
                                              const RegisterOptions& options, Tensor value, TensorSlots& slots) {
  auto slot = std::make_shared<TensorSlot>();
  slot->name = name;
  slot->owner_type = owner_type;
  slot->owner = owner;
  slot->trained = trained;
  slot->optional = options.optional;
  slots.reserve(slots.size() + 1);
  slot->put(op, std::move(value));
  slots.push_back(slot);
  return slot;
}

Parameter Module::register_parameter(const std::string& name, Tensor value, const RegisterOptions& options) {
  constexpr const char* kOp = "register_parameter";
  State& own = state(kOp);
  own.check_name(kOp, name);
  return Parameter(detail::make_slot(kOp, name, own.type, state_, true, options, std::move(value), own.parameters));
}

Buffer Module::register_buffer(const std::string& name, Tensor value, const RegisterOptions& options) {
  constexpr const char* kOp = "register_buffer";
  State& own = state(kOp);
  own.check_name(kOp, name);
  return Buffer(detail::make_slot(kOp, name, own.type, state_, false, options, std::move(value), own.buffers));
}

std::shared_ptr<ChildSlot> Module::add_slot(const char* op, const std::string& name, const Module* child,
                                            std::any typed) {
  State& own = state(op);
  if (child != nullptr) child->check_not_moved_from(op);
  own.check_name(op, name);
  if (child != nullptr) {
    for (const auto& [path, module] : child->named_modules()) {
      ADJOINT_CHECK(!(module == *this), "{}: a module must not be put inside itself; got '{}' in {}", op, name,
                    own.type);
    }
  }
  auto slot = std::make_shared<ChildSlot>();
  slot->name = name;
  slot->owner_type = own.type;
  slot->owner = state_;
  own.children.reserve(own.children.size() + 1);
  detail::place(slot, child, typed);
  own.children.push_back(slot);
  return slot;
}

void detail::place(const std::shared_ptr<ChildSlot>& slot, const Module* module, std::any& own) {
  std::optional<Module> before;  // goes once the guard has
  const std::lock_guard lock(places_guard);
  if (module != nullptr) {
    auto& places = module->state_->places;
    std::erase_if(places, [](const auto& place) { return place.expired(); });
    places.push_back(slot);
  }
  slot->own.swap(own);
  if (slot->module) before.emplace(std::move(*slot->module));
  slot->module.reset();
  if (module != nullptr) slot->module.emplace(*module);
}

// ---- Printing.

std::string to_string(const Module& module) {
  const Module::State& own = module.state("to_string");
  const std::string &type = own.type, &description = own.description;
  const auto& children = own.children;
  if (children.empty()) return type + "(" + description + ")";
  std::string body = description.empty() ? "" : "\n" + description;
  for (const auto& slot : children) {
    body += "\n(" + slot->name + "): " + (slot->module ? to_string(*slot->module) : "None");
  }
  std::string text = type + "(";
  for (const char c : body) text += c == '\n' ? "\n  " : std::string(1, c);
  return text + "\n)";
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << to_string(module); }

}  // namespace adjoint::nn

#include <adjoint/nn/module.h>

#include <adjoint/core/check.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace adjoint::nn {

struct Module::State {
  std::string type;
  std::string description;
  bool training = true;
  NamedTensors parameters;
  NamedTensors buffers;
  std::vector<std::pair<std::string, Module>> children;

  bool has(const std::string& name) const {
    const auto is_it = [&](const auto& entry) { return entry.first == name; };
    return std::any_of(parameters.begin(), parameters.end(), is_it) ||
           std::any_of(buffers.begin(), buffers.end(), is_it) || std::any_of(children.begin(), children.end(), is_it);
  }

  void check_name(const char* op, const std::string& name) const {
    ADJOINT_CHECK(!name.empty() && name.find('.') == std::string::npos,
                  "{}: a name must not be empty or hold a dot; got '{}' in {}", op, name, type);
    ADJOINT_CHECK(!has(name), "{}: a name must be free; got '{}', which {} already has", op, name, type);
  }
};

namespace {

// The tensors that each module gives, under their paths, each tensor once.
template <class F>
NamedTensors collect(const std::vector<std::pair<std::string, Module>>& modules, const F& tensors_of) {
  NamedTensors all;
  std::unordered_set<const TensorImpl*> seen;
  for (const auto& [path, module] : modules) {
    for (const auto& [name, tensor] : tensors_of(module)) {
      if (seen.insert(tensor.impl()).second) all.emplace_back(path.empty() ? name : path + "." + name, tensor);
    }
  }
  return all;
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

const std::string& Module::type() const { return state_->type; }
bool Module::training() const { return state_->training; }
void Module::set_description(std::string text) { state_->description = std::move(text); }

// ---- What is inside.

std::vector<std::pair<std::string, Module>> Module::named_children() const { return state_->children; }

std::vector<std::pair<std::string, Module>> Module::named_modules() const {
  std::vector<std::pair<std::string, Module>> all{{"", *this}};
  for (const auto& [name, child] : state_->children) {
    for (const auto& [path, module] : child.named_modules()) {
      all.emplace_back(path.empty() ? name : name + "." + path, module);
    }
  }
  return all;
}

NamedTensors Module::named_parameters() const {
  return collect(named_modules(),
                 [](const Module& module) -> const NamedTensors& { return module.state_->parameters; });
}

NamedTensors Module::named_buffers() const {
  return collect(named_modules(), [](const Module& module) -> const NamedTensors& { return module.state_->buffers; });
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> all;
  for (const auto& [name, parameter] : named_parameters()) all.push_back(parameter);
  return all;
}

std::int64_t Module::num_parameters() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

// ---- State.

NamedTensors Module::state_dict() const {
  NamedTensors all;
  for (const auto& [path, module] : named_modules()) {
    for (const NamedTensors* tensors : {&module.state_->parameters, &module.state_->buffers}) {
      for (const auto& [name, tensor] : *tensors)
        all.emplace_back(path.empty() ? name : path + "." + name, tensor.detach());
    }
  }
  return all;
}

LoadReport Module::load_state_dict(const NamedTensors& state, const LoadOptions& options) {
  std::unordered_map<std::string, const Tensor*> given;
  for (const auto& [name, tensor] : state) {
    ADJOINT_CHECK(tensor.defined(), "load_state_dict: every tensor must be defined; got Tensor{{}} as '{}'", name);
    ADJOINT_CHECK(given.emplace(name, &tensor).second, "load_state_dict: names must be unique; got '{}' twice", name);
  }
  LoadReport report;
  std::vector<std::string> mismatched;
  std::vector<std::pair<Tensor, const Tensor*>> copies;
  for (auto& [name, own] : state_dict()) {
    const auto found = given.find(name);
    if (found == given.end()) {
      report.missing.push_back(name);
      continue;
    }
    const Tensor& source = *found->second;
    if (source.shape() != own.shape() || source.dtype() != own.dtype()) {
      mismatched.push_back(fmt::format("{} (the module has {} {}, got {} {})", name, own.dtype(), own.shape(),
                                       source.dtype(), source.shape()));
    }
    copies.emplace_back(own, &source);
    given.erase(found);
  }
  for (const auto& [name, tensor] : state) {
    if (given.contains(name)) report.unexpected.push_back(name);
  }
  const bool names_fit = report.missing.empty() && report.unexpected.empty();
  ADJOINT_CHECK(mismatched.empty() && (names_fit || !options.strict),
                "load_state_dict: names, shapes and dtypes must be the module's ({}){}{}{}", type(),
                list("missing", report.missing), list("unexpected", report.unexpected), list("mismatched", mismatched));
  for (auto& [own, source] : copies) own.copy_(*source);
  return report;
}

// ---- Whole-tree operations.

template <class F>
void Module::move_tensors(const char* op, const F& moved) const {
  ADJOINT_CHECK(
      Tape::current() == nullptr,
      "{}: a module must not move while a tape records; got a live tape; move it before the tape or under PauseTape",
      op);
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
  state_->training = on;
  for (auto& [name, child] : state_->children) child.train(on);
}

void Module::zero_grad() {
  for (Tensor& parameter : parameters()) parameter.set_grad({});
}

void Module::requires_grad_(bool value) {
  for (Tensor& parameter : parameters()) parameter.requires_grad_(value);
}

// ---- Building.

Tensor Module::register_parameter(const std::string& name, Tensor value) {
  state_->check_name("register_parameter", name);
  ADJOINT_CHECK(value.defined(), "register_parameter: a parameter must be defined; got Tensor{{}} as '{}' in {}", name,
                type());
  value.requires_grad_();
  state_->parameters.emplace_back(name, value);
  return value;
}

Tensor Module::register_buffer(const std::string& name, Tensor value) {
  state_->check_name("register_buffer", name);
  ADJOINT_CHECK(value.defined(), "register_buffer: a buffer must be defined; got Tensor{{}} as '{}' in {}", name,
                type());
  ADJOINT_CHECK(!value.requires_grad(),
                "register_buffer: a buffer must not require a gradient; got '{}' in {}; detach() it, or "
                "use register_parameter",
                name, type());
  state_->buffers.emplace_back(name, value);
  return value;
}

void Module::add_child(const std::string& name, const Module& child) {
  state_->check_name("register_module", name);
  for (const auto& [path, module] : child.named_modules()) {
    ADJOINT_CHECK(!(module == *this), "register_module: a module must not be put inside itself; got '{}' in {}", name,
                  type());
  }
  state_->children.emplace_back(name, child);
}

// ---- Printing.

std::string to_string(const Module& module) {
  const auto& [type, description, children] =
      std::tie(module.type(), module.state_->description, module.state_->children);
  if (children.empty()) return type + "(" + description + ")";
  std::string body = description.empty() ? "" : "\n" + description;
  for (const auto& [name, child] : children) body += "\n(" + name + "): " + to_string(child);
  std::string text = type + "(";
  for (const char c : body) text += c == '\n' ? "\n  " : std::string(1, c);
  return text + "\n)";
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << to_string(module); }

}  // namespace adjoint::nn

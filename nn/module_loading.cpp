// A module's state: giving it out by name, and taking it in, whole or not at all.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/module_state.h>
#include <adjoint/nn/renames.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace adjoint::nn {
namespace {

// Returns true if both are the same elements in the same order.
bool same_elements(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage && a.storage_offset() == b.storage_offset() && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

std::string list(const char* title, const std::vector<std::string>& items) {
  return items.empty() ? std::string() : fmt::format("; {}: {}", title, fmt::join(items, ", "));
}

[[noreturn]] void frozen_weight(const char* op, const Module& module, const Tensor& weight) {
  std::string name;
  for (const auto& [own, tensor] : module.state_dict()) {
    if (tensor.impl()->storage == weight.impl()->storage && tensor.storage_offset() == weight.storage_offset())
      name = own;
  }
  fail("{}: weights must not change while their model is frozen; got '{}' in {}; unfreeze it first", op, name,
       module.type());
}

}  // namespace

NamedTensors Module::state_dict() const {
  check_not_moved_from("state_dict");
  NamedTensors all;
  for (const auto& [path, module] : named_modules()) {
    for (const TensorSlots* slots : {&module.state_->parameters, &module.state_->buffers}) {
      for (const auto& slot : *slots) {
        if (slot->tensor.defined()) all.emplace_back(detail::join(path, slot->name), slot->tensor.detach());
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
        if (!slot->alias.empty()) all.emplace_back(detail::join(path, slot->alias), detail::join(path, slot->name));
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

  // All steps that may fail, and copies of the elements to be overwritten, come before the first write.
  std::unordered_set<const Storage*> written;
  for (const auto& [own, source] : copies) {
    if (own.impl()->storage->forms() != nullptr) frozen_weight("load_state_dict", *this, own);
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

}  // namespace adjoint::nn

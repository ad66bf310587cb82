#include <adjoint/nn/functional_call.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/module_state.h>

#include <unordered_map>
#include <unordered_set>

namespace adjoint::nn {

std::vector<std::pair<std::string, std::shared_ptr<TensorSlot>>> detail::tensor_slots(const Module& module) {
  std::vector<std::pair<std::string, std::shared_ptr<TensorSlot>>> all;
  for (const auto& [path, below] : module.named_modules()) {
    for (const TensorSlots* slots : {&below.state_->parameters, &below.state_->buffers}) {
      for (const auto& slot : *slots) all.emplace_back(path.empty() ? slot->name : path + "." + slot->name, slot);
    }
  }
  return all;
}

detail::ReplacedTensors::ReplacedTensors(const Module& module, const NamedTensors& tensors) {
  constexpr const char* kOp = "functional_call";
  std::unordered_map<std::string, std::shared_ptr<TensorSlot>> by_name;
  std::unordered_map<const TensorImpl*, std::vector<std::shared_ptr<TensorSlot>>> by_tensor;
  for (const auto& [name, slot] : tensor_slots(module)) {
    by_name.emplace(name, slot);
    if (slot->tensor.defined()) by_tensor[slot->tensor.impl()].push_back(slot);
  }
  std::unordered_set<std::string> names;
  std::unordered_set<const TensorSlot*> named;
  std::vector<std::pair<std::shared_ptr<TensorSlot>, Tensor>> replaced;
  for (const auto& [name, tensor] : tensors) {
    const auto found = by_name.find(name);
    ADJOINT_CHECK(found != by_name.end() && names.insert(name).second,
                  "{}: names must be those of parameters and buffers, each once; got '{}' for {}", kOp, name,
                  module.type());
    const TensorSlot& slot = *found->second;
    ADJOINT_CHECK(slot.computed == nullptr,
                  "{}: a parameter that others make must be replaced by its parts; got '{}', "
                  "which {} makes",
                  kOp, name, slot.computed == nullptr ? "" : slot.computed->how.kind);
    ADJOINT_CHECK(tensor.defined() && slot.tensor.defined() && tensor.shape() == slot.tensor.shape(),
                  "{}: tensors must have the shapes of the module's; got {} for '{}', which is {}", kOp,
                  tensor.defined() ? to_string(tensor.shape()) : "Tensor{}", name,
                  slot.tensor.defined() ? to_string(slot.tensor.shape()) : "empty");
    replaced.emplace_back(found->second, tensor);
    named.insert(&slot);
  }
  // Tied parameters without a tensor under their own name follow.
  for (std::size_t i = 0, count = replaced.size(); i < count; ++i) {
    for (const auto& slot : by_tensor[replaced[i].first->tensor.impl()]) {
      if (named.insert(slot.get()).second) replaced.emplace_back(slot, replaced[i].second);
    }
  }
  own_ = std::move(replaced);
  for (auto& [slot, tensor] : own_) std::swap(slot->tensor, tensor);
}

detail::ReplacedTensors::~ReplacedTensors() {
  for (auto& [slot, tensor] : own_) std::swap(slot->tensor, tensor);
}

}  // namespace adjoint::nn

// functional_call: a module called with other parameters and buffers than its own.
//
//   Tape tape;
//   NamedTensors fast = net.named_parameters();
//   for (int step = 0; step < 3; ++step) {  // MAML's inner steps
//     std::vector<Tensor> weights;
//     for (const auto& [name, weight] : fast) weights.push_back(weight);
//     const Tensor loss = mse_loss(nn::functional_call(net, fast, x), y);
//     const std::vector<Tensor> gradients = gradient(loss, weights, {.record = true});
//     for (std::size_t i = 0; i < fast.size(); ++i) fast[i].second = weights[i] - 0.1 * gradients[i];
//   }
//   backward(mse_loss(nn::functional_call(net, fast, other_x), other_y));  // through the steps to net's parameters
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/nn/module.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint::nn {

namespace detail {

/// While it lives, `tensors` replace those in the slots of `module` that they name by path.
class ADJOINT_API ReplacedTensors {
 public:
  ReplacedTensors(const Module& module, const NamedTensors& tensors);
  ~ReplacedTensors();
  ReplacedTensors(const ReplacedTensors&) = delete;
  ReplacedTensors& operator=(const ReplacedTensors&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<TensorSlot>, Tensor>> own_;
};

}  // namespace detail

/// module(inputs...) with the parameters and buffers that `tensors` names ("encoder.0.weight") replaced for the length
/// of the call. Afterwards the module has its previous tensors, even if the call throws. A tensor in several places is
/// replaced in all of them. The tensors may be results of recorded operations, which gradients go through, to any
/// order. A buffer that the call changes, such as BatchNorm's statistics, is the one given. A reparametrised weight is
/// replaced by its parts ("weight_g"). No other thread may use the module meanwhile.
///
/// Throws Error for a name that the module does not have, or twice, for undefined tensors and other shapes than the
/// module's.
template <class M, class... Inputs>
decltype(auto) functional_call(const M& module, const NamedTensors& tensors, Inputs&&... inputs) {
  const detail::ReplacedTensors replaced(module, tensors);
  return std::invoke(module, std::forward<Inputs>(inputs)...);
}

}  // namespace adjoint::nn

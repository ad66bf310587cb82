// Operators of a program's own, with their gradients.
//
//   Tensor cube(const Tensor& x) {
//     return custom("cube", {x},
//                   [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * in[0] * in[0]}; },
//                   [](const CustomCall& call) -> std::vector<Tensor> {
//                     return {call.grads[0] * call.inputs[0] * call.inputs[0] * 3.0};
//                   })[0];
//   }
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace adjoint {

/// The arguments of a backward function.
struct CustomCall {
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>& results;
  /// The results' gradients, at least one of which is defined; an undefined one stands for zero.
  const std::vector<Tensor>& grads;
  /// True for inputs whose gradients are needed. Others may be left undefined.
  const std::vector<bool>& needed;
};

using CustomForward = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
using CustomBackward = std::function<std::vector<Tensor>(const CustomCall& call)>;

/// forward(inputs), as one operator called `name`. Nothing in `forward` is recorded. A sweep calls `backward`, which
/// returns a gradient for each input: of its shape, dtype and device, or undefined for zero. If `backward` is written
/// in operators, the gradient is differentiable again. The numbers of inputs and results are free, and inputs may be
/// undefined. Results of a floating-point dtype are recorded. All of them are kept for the gradient.
///
/// Throws Error, naming `name`, for an empty function, results that are undefined, inputs that `forward` changes in
/// place, and, in the sweep, gradients that do not fit.
ADJOINT_API std::vector<Tensor> custom(const std::string& name, const std::vector<Tensor>& inputs,
                                       const CustomForward& forward, const CustomBackward& backward);

}  // namespace adjoint

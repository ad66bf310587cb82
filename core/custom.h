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

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace adjoint {

/// What a backward function is told.
struct CustomCall {
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>& results;
  /// The results' gradients, of which one is defined at least; an undefined one stands for zero.
  const std::vector<Tensor>& grads;
  /// Whose gradients somebody needs. Others may be left undefined.
  const std::vector<bool>& needed;
};

using CustomForward = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
using CustomBackward = std::function<std::vector<Tensor>(const CustomCall& call)>;

/// forward(inputs), as one operator called `name`. Nothing that `forward` does is recorded; a sweep calls `backward`,
/// which returns a gradient for each input: of its shape, dtype and device, or undefined for zero. Where `backward` is
/// written in operators, the gradient is differentiable again. Any number of inputs, which may be undefined, and of
/// results, of which those of a floating-point dtype are recorded. All of them are kept for the gradient.
///
/// Throws Error, naming `name`, for an empty function, results that are undefined, inputs that `forward` changes in
/// place, and, in the sweep, gradients that do not fit.
ADJOINT_API std::vector<Tensor> custom(const std::string& name, const std::vector<Tensor>& inputs,
                                       const CustomForward& forward, const CustomBackward& backward);

}  // namespace adjoint

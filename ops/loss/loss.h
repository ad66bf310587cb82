// Losses: distances between a prediction and a target.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

/// What becomes of the elements' losses. A mean over no elements is NaN.
enum class Reduction : std::uint8_t { kMean, kSum, kNone };

// Differentiable in both operands, to any order. Both have one shape, floating-point dtype and device: nothing
// broadcasts, since a loss that broadcasts is a mistake more often than not. The result is a scalar, or for kNone has
// their shape. float16 and bfloat16 are computed in float32 and rounded once, gradients too. Throws Error for operands
// that differ.

/// (input - target)^2.
ADJOINT_API Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean);
/// |input - target|; the gradient is 0 where they are equal.
ADJOINT_API Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean);

}  // namespace adjoint

// Softmax along an axis.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {

/// exp(x) divided by its sum along `axis`, or the logarithm of that, computed from distances to the axis's largest
/// element, so that neither overflows. Floating point only; 16-bit types are computed in float32 and rounded once. NaN
/// if an element is infinity, and if all are -infinity. Differentiable to any order. Throws Error for an undefined x,
/// another dtype, and an axis that x does not have.
ADJOINT_API Tensor softmax(const Tensor& x, std::int64_t axis);
ADJOINT_API Tensor log_softmax(const Tensor& x, std::int64_t axis);

}  // namespace adjoint

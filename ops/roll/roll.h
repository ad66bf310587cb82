// Shifting a tensor's elements along an axis, around its ends.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {

/// x's elements moved `shift` places along `axis` (negative: back); elements that leave at one end enter at the other:
/// result[i] = x[(i - shift) mod extent]. Any dtype; `axis` may be negative, counted from the end. Differentiable to
/// any order. Throws Error for an undefined x and for an axis that x does not have.
ADJOINT_API Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis);

}  // namespace adjoint

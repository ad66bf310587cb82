// Running sums.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

/// Element i along `axis` is the sum of x's elements up to i. Any dtype; of integers and bool, int64. 16-bit types are
/// added in float32 or wider and rounded once each. Differentiable to any order. Throws Error for an undefined x and an
/// axis that x does not have.
ADJOINT_API Tensor cumsum(const Tensor& x, std::int64_t axis);

}  // namespace adjoint

// Running sums, products and extremes.
//
// Element i along `axis` is of x's elements up to i. Differentiable to any order unless documented otherwise. Throws
// Error for an undefined x and an axis that x does not have.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <utility>

namespace adjoint {

/// The sum. Any dtype; of integers and bool, int64. 16-bit types are added in float32 or wider and rounded once each.
ADJOINT_API Tensor cumsum(const Tensor& x, std::int64_t axis);

// The others make log2(extent) passes over x. Each combines elements that are twice as far apart, so the order depends
// on the extent alone (Hillis, Steele: "Data parallel algorithms", 1986).

/// The product. Any dtype; of integers and bool, int64. 16-bit types are multiplied in float32 and rounded once each.
/// The gradient is right at zeros too. A tape keeps every pass.
ADJOINT_API Tensor cumprod(const Tensor& x, std::int64_t axis);

/// log(sum of exp(x)), which neither overflows nor loses small sums. Floating point only; as cumprod of 16-bit types.
ADJOINT_API Tensor logcumsumexp(const Tensor& x, std::int64_t axis);

/// The largest and the least element, and its index along `axis` (int64), the last of equal elements; the last NaN
/// wins. Any dtype. The gradient goes to that element alone.
ADJOINT_API std::pair<Tensor, Tensor> cummax(const Tensor& x, std::int64_t axis);
ADJOINT_API std::pair<Tensor, Tensor> cummin(const Tensor& x, std::int64_t axis);

}  // namespace adjoint

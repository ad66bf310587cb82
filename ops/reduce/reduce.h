// Reductions beside Tensor's members sum, mean and max.
//
// All of them reduce in an order that depends on the shape and the axes alone: neither on the number of threads nor on
// that of multiprocessors. float16 and bfloat16 are summed in float32 and rounded once, and so are gradients; sums of
// integers and of bool are int64.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

/// The variance over `axes` (all of them where the list is empty): the sum of squared distances from the mean, divided
/// by the number of elements less `correction` (1: Bessel's, the unbiased estimate; 0: the population's). One pass over
/// memory, in which a mean has twice the dtype's digits: values far from 0 cost no accuracy. Floating point only. NaN
/// or infinite where the divisor is not positive, NaN where an element is infinite. Differentiable, to any order.
ADJOINT_API Tensor var(const Tensor& input, const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false);

/// The index (int64) along `axis` of the largest element, the first of equals; the first NaN wins. Any dtype. Not
/// differentiable. Throws Error for an axis without elements.
ADJOINT_API Tensor argmax(const Tensor& input, std::int64_t axis, bool keepdim = false);

}  // namespace adjoint

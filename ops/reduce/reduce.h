// Reductions besides Tensor's members sum and mean.
//
// They reduce in an order that depends on the shape and the axes alone, not on the number of threads or
// multiprocessors. float16 and bfloat16 are reduced in float32 and rounded once, and so are gradients; sums and
// products of integers and of bool are int64. An empty list of axes means all axes; with `keepdim` a reduced axis keeps
// one element. NaN wins. Differentiable to any order, unless stated otherwise. Throws Error for undefined tensors, axes
// that the input does not have or that are named twice, and dtypes that a function does not accept.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <utility>

namespace adjoint {

/// The sum and the mean, like Tensor's members.
ADJOINT_API Tensor sum(const Tensor& input, const Dims& axes = {}, bool keepdim = false);
ADJOINT_API Tensor mean(const Tensor& input, const Dims& axes = {}, bool keepdim = false);

/// The product, 1 for no elements. Any dtype. The gradient is right at zeros too.
ADJOINT_API Tensor prod(const Tensor& input, const Dims& axes = {}, bool keepdim = false);

/// (sum of |x|^p)^(1/p). For p of 0 it is the number of elements that are not 0, and for infinity and -infinity the
/// largest and the least absolute value. Floating point only. The gradient is 0 where the norm or an element is 0;
/// equal absolute values share it if p is infinite. 0 for no elements, for which a negative or infinite p throws Error.
/// Also throws Error for a p that is NaN.
ADJOINT_API Tensor norm(const Tensor& input, double p = 2.0, const Dims& axes = {}, bool keepdim = false);

/// log(sum of exp(x)), in one pass that neither overflows nor loses small sums: infinity if an element is infinity,
/// -infinity if all are, and for no elements. Floating point only.
ADJOINT_API Tensor logsumexp(const Tensor& input, const Dims& axes = {}, bool keepdim = false);

/// The variance: the sum of squared distances from the mean, divided by the number of elements minus `correction` (1:
/// Bessel's, the unbiased estimate; 0: the population's). One pass over memory, in which a mean has twice the dtype's
/// digits, so values far from 0 cost no accuracy. Floating point only. NaN or infinite if the divisor is not positive,
/// NaN if an element is infinite.
ADJOINT_API Tensor var(const Tensor& input, const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false);
/// The variance's root, whose gradient is 0 where the root is 0.
ADJOINT_API Tensor std(const Tensor& input, const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false);
/// The variance, or its root, and the mean, both from one pass.
ADJOINT_API std::pair<Tensor, Tensor> var_mean(const Tensor& input, const Dims& axes = {}, std::int64_t correction = 1,
                                               bool keepdim = false);
ADJOINT_API std::pair<Tensor, Tensor> std_mean(const Tensor& input, const Dims& axes = {}, std::int64_t correction = 1,
                                               bool keepdim = false);

/// The largest and the least element. Any dtype. Equal elements share the gradient evenly. Throws Error over no
/// elements.
ADJOINT_API Tensor amax(const Tensor& input, const Dims& axes = {}, bool keepdim = false);
ADJOINT_API Tensor amin(const Tensor& input, const Dims& axes = {}, bool keepdim = false);
/// The same over all axes.
ADJOINT_API Tensor max(const Tensor& input);
ADJOINT_API Tensor min(const Tensor& input);

/// The largest or least element along `axis`, and its index (int64): the first of equal elements; the first NaN wins.
/// Any dtype. Only that element gets the gradient. Throws Error for an axis without elements.
ADJOINT_API std::pair<Tensor, Tensor> max(const Tensor& input, std::int64_t axis, bool keepdim = false);
ADJOINT_API std::pair<Tensor, Tensor> min(const Tensor& input, std::int64_t axis, bool keepdim = false);

/// Only that index. Not differentiable. Without an axis, the index among the elements in row-major order.
ADJOINT_API Tensor argmax(const Tensor& input, std::int64_t axis, bool keepdim = false);
ADJOINT_API Tensor argmax(const Tensor& input);
ADJOINT_API Tensor argmin(const Tensor& input, std::int64_t axis, bool keepdim = false);
ADJOINT_API Tensor argmin(const Tensor& input);

/// True if any element is not 0, or if all are not 0; NaN is not 0. For no elements false, and true. Any dtype. Not
/// differentiable.
ADJOINT_API Tensor any(const Tensor& input, const Dims& axes = {}, bool keepdim = false);
ADJOINT_API Tensor all(const Tensor& input, const Dims& axes = {}, bool keepdim = false);

}  // namespace adjoint

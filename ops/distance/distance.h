// Lengths of vectors and distances between them.
//
// Floating point only; 16-bit types are computed in float32 and rounded once. Differentiable to any order. Throws Error
// for undefined tensors, dtypes or devices that differ, axes that an operand does not have, shapes that do not fit, and
// a p that is negative or NaN.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {

/// x divided by its p-norm along `axis`, or by eps if the norm is less.
ADJOINT_API Tensor normalize(const Tensor& x, double p = 2.0, std::int64_t axis = 1, double eps = 1e-12);

/// The cosine of the angle between a and b, which broadcast, along `axis`; a norm below eps counts as eps.
ADJOINT_API Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis = 1, double eps = 1e-8);

/// The p-norm of a - b + eps along the last axis; a and b (..., D) broadcast.
ADJOINT_API Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2.0, double eps = 1e-6,
                                     bool keepdim = false);

/// a (..., P, D), b (..., R, D) -> (..., P, R): the p-norm of each row of a less each row of b; the axes before the
/// last two broadcast. p is 0 (the number of differing elements) or more, including infinity. The gradient is 0 for
/// equal rows. If p is infinite, several largest elements share it equally. Takes memory for P R D elements.
ADJOINT_API Tensor cdist(const Tensor& a, const Tensor& b, double p = 2.0);

}  // namespace adjoint

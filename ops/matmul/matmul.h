// Matrix products with PyTorch's rules.
#pragma once

#include <adjoint/core/tensor/tensor.h>

namespace adjoint {

/// The matrix product of the last two axes; the axes before them broadcast. a (..., M, K), b (..., K, N) -> (..., M,
/// N). A 1-D `a` is a row and a 1-D `b` a column, and that axis is removed from the result: two vectors (K) give a
/// scalar. Differentiable. float16 and bfloat16 are summed in float32; on CUDA, float32 follows float32_precision(). On
/// the CPU every result is within 700 u times the sum of its products' magnitudes of the exact sum, however long the
/// sum is, where u is 2^-24 in float32 and 2^-53 in float64: at most 512 products are summed in a row, and such sums
/// and slices of them separately. Random errors are of the order of that number's square root. Throws Error unless both
/// are floating point, of one dtype and device, have at least 1 axis, and agree in K.
ADJOINT_API Tensor matmul(const Tensor& a, const Tensor& b);

/// The matrix products of a batch: a (B, M, K), b (B, K, N) -> (B, M, N), as matmul's. Throws Error for other shapes:
/// nothing broadcasts.
ADJOINT_API Tensor bmm(const Tensor& a, const Tensor& b);

/// a (M), b (N) -> (M, N), a[i] b[j]. All dtypes that + accepts. Throws Error for other numbers of axes.
ADJOINT_API Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace adjoint

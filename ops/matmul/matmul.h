// Matrix products with PyTorch's rules.
#pragma once

#include <adjoint/core/tensor.h>

namespace adjoint {

/// The matrix product of the last two axes; the axes before them broadcast. a (..., M, K), b (..., K, N) -> (..., M,
/// N). A 1-D `a` is a row and a 1-D `b` a column, and that axis is gone from the result: two vectors (K) give a scalar.
/// Differentiable. float16 and bfloat16 are summed in float32; on CUDA, float32 follows float32_precision().
/// On the CPU no result is further from the exact sum than 700 u times the sum of its products' magnitudes, however
/// long the sum is, u being 2^-24 in float32 and 2^-53 in float64: at most 512 products are summed in a row, and such
/// sums and slices of them apart. Where errors are random they are of the order of that number's root. Throws Error
/// unless both are floating point, of one dtype and device, have 1 axis or more, and agree in K.
ADJOINT_API Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace adjoint

// Matrix products with PyTorch's rules.
#pragma once

#include <adjoint/core/tensor.h>

namespace adjoint {

/// The matrix product of the last two axes; the axes before them broadcast. a (..., M, K), b (..., K, N) -> (..., M,
/// N). A 1-D `a` is a row and a 1-D `b` a column, and that axis is gone from the result: two vectors (K) give a scalar.
/// Differentiable. float16 and bfloat16 are summed in float32; on CUDA, float32 follows float32_precision().
/// Throws Error unless both are floating point, of one dtype and device, have 1 axis or more, and agree in K.
ADJOINT_API Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace adjoint

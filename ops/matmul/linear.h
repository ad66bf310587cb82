// The affine map of a fully connected layer.
#pragma once

#include <adjoint/core/tensor/tensor.h>

namespace adjoint {

/// x weight^T + bias: x (..., in_features), weight (out_features, in_features), bias (out_features) or undefined ->
/// (..., out_features). Arithmetic, dtypes and accuracy are matmul's, with one rounding to 16 bits, after the bias.
/// Leading axes are one tall matrix, and no operand is transposed in memory, not even in the gradients. Differentiable
/// to any order. Throws Error for shapes that do not fit, and unless all are floating point, of one dtype and device.
ADJOINT_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace adjoint

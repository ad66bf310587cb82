// Normalisation: y = activation((x - mean) / sqrt(variance + eps) * weight + bias + residual).
//
// The functions differ in the elements over which mean and variance are taken, and in the axes of weight and bias.
// Statistics have twice the digits of the computation (float32 for float16 and bfloat16), as in var. x and the
// statistics are kept for the gradient; with an activation the bias and the residual too.
//
// Names, order of arguments and defaults are PyTorch's. Floating point only. All operands share x's dtype and device,
// with two exceptions: running statistics may share any floating-point dtype, and the weight and bias of batch_norm and
// instance_norm may be float32 if x has 16 bits, as under mixed precision. Differentiable in input, weight, bias and
// residual, to any order. Throws Error for shapes and dtypes that do not fit.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/activation.h>

#include <cstdint>
#include <optional>

namespace adjoint {

/// Operations fused behind a normalisation, in its own pass over memory for the activations that convolutions fuse.
struct NormFusion {
  Activation activation = {};
  /// Of the input's shape, added before the activation; undefined: no residual.
  Tensor residual = {};
};

/// Normalises over every axis but 1, of C elements (Ioffe, Szegedy: "Batch normalization", 2015). input (N, C, ...);
/// running_mean, running_var, weight and bias (C). In training it uses the batch's own statistics, and running ones, if
/// they are defined, change in place to (1 - momentum) running + momentum * batch, with n - 1 as the variance's
/// divisor. Otherwise it uses the running ones, which are then required. They have no gradient. Also throws Error in
/// training with one value for each channel. An input without elements leaves running statistics unchanged.
ADJOINT_API Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                              const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                              double momentum = 0.1, double eps = 1e-5, const NormFusion& behind = {});

/// Normalises over the last axes, whose extents are normalized_shape; weight and bias have that shape (Ba, Kiros,
/// Hinton: "Layer normalization", 2016).
ADJOINT_API Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                              const Tensor& bias = {}, double eps = 1e-5, const NormFusion& behind = {});

/// Normalises for each sample over num_groups groups of neighbouring channels (Wu, He: "Group normalization", 2018).
/// input (N, C, ...); weight and bias (C); num_groups divides C. Also throws Error if the whole batch has one value for
/// each group.
ADJOINT_API Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight = {},
                              const Tensor& bias = {}, double eps = 1e-5, const NormFusion& behind = {});

/// Normalises for each sample and channel over the axes behind (Ulyanov, Vedaldi, Lempitsky: "Instance normalization",
/// 2016). input (N, C, ...); running_mean, running_var, weight and bias (C). Running statistics, if they are defined,
/// follow the batch's mean of its samples' statistics, as in batch_norm; with use_input_stats false they are used and
/// required. Also throws Error for one value for each channel of a sample.
ADJOINT_API Tensor instance_norm(const Tensor& input, const Tensor& running_mean = {}, const Tensor& running_var = {},
                                 const Tensor& weight = {}, const Tensor& bias = {}, bool use_input_stats = true,
                                 double momentum = 0.1, double eps = 1e-5, const NormFusion& behind = {});

/// input / sqrt(mean of input^2 + eps) * weight, with the mean over the last axes, as in layer_norm (Zhang, Sennrich:
/// "Root mean square layer normalization", 2019). eps defaults to the distance from 1 to the next number of input's
/// dtype.
ADJOINT_API Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                            std::optional<double> eps = {}, const NormFusion& behind = {});

}  // namespace adjoint

// Normalisation: y = activation((x - mean) / sqrt(variance + eps) * weight + bias + residual).
//
// What differs is over which elements mean and variance are taken, and where the weight's and the bias's elements
// stand. Statistics have twice the digits that x is computed in (of float16 and bfloat16: float32), as var's do. For
// the gradient x and the statistics are kept; with an activation the bias and the residual too.
//
// Names, order of arguments and defaults are PyTorch's. Floating point only; all operands share x's dtype and device,
// but for running statistics, which share any floating-point dtype, and batch_norm's and instance_norm's weight and
// bias, which may be of float32 where x has 16 bits, as they are under mixed precision. Differentiable in input,
// weight, bias and residual, to any order. Throws Error for shapes and dtypes that do not fit.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/elementwise/activation.h>

#include <cstdint>
#include <optional>

namespace adjoint {

/// What is computed behind a normalisation, in its own pass over memory for the activations that convolutions fuse.
struct NormFusion {
  Activation activation = {};
  /// Of the input's shape, added before the activation; undefined: none.
  Tensor residual = {};
};

/// Over every axis but 1, of C elements (Ioffe, Szegedy: "Batch normalization", 2015). input (N, C, ...); running_mean,
/// running_var, weight and bias (C). In training the batch's own statistics count, and running ones, where they are
/// defined, change in place to (1 - momentum) running + momentum * batch, the variance's with n - 1 in the divisor;
/// else the running ones count, and are required. They have no gradient. Throws Error too in training with one value
/// for each channel. An input without elements leaves running statistics as they are.
ADJOINT_API Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                              const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                              double momentum = 0.1, double eps = 1e-5, const NormFusion& behind = {});

/// Over the last axes, whose extents are normalized_shape; weight and bias have that shape (Ba, Kiros, Hinton: "Layer
/// normalization", 2016).
ADJOINT_API Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                              const Tensor& bias = {}, double eps = 1e-5, const NormFusion& behind = {});

/// For each sample over num_groups groups of neighbouring channels each (Wu, He: "Group normalization", 2018). input
/// (N, C, ...); weight and bias (C); num_groups divides C.
ADJOINT_API Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight = {},
                              const Tensor& bias = {}, double eps = 1e-5, const NormFusion& behind = {});

/// For each sample and channel over the axes behind (Ulyanov, Vedaldi, Lempitsky: "Instance normalization", 2016).
/// input (N, C, ...); running_mean, running_var, weight and bias (C). Running statistics, where they are defined,
/// follow the mean over the batch of what batch_norm's follow; with use_input_stats false they count and are required.
/// Throws Error too for one value for each channel of a sample.
ADJOINT_API Tensor instance_norm(const Tensor& input, const Tensor& running_mean = {}, const Tensor& running_var = {},
                                 const Tensor& weight = {}, const Tensor& bias = {}, bool use_input_stats = true,
                                 double momentum = 0.1, double eps = 1e-5, const NormFusion& behind = {});

/// input / sqrt(mean of input^2 + eps) * weight, the mean over the last axes, as layer_norm's (Zhang, Sennrich: "Root
/// mean square layer normalization", 2019). Without eps, the distance from 1 to the next number of input's dtype.
ADJOINT_API Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                            std::optional<double> eps = {}, const NormFusion& behind = {});

}  // namespace adjoint

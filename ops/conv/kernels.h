// The trio's kernels by device. Operands are contiguous and have the geometry's shapes; every element of `out` is
// written.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/elementwise/activation.h>

#include <functional>
#include <span>

namespace adjoint {

struct ConvAttr {
  ConvGeometry geometry;
  Activation activation = {};  // of sum and bias, before they are rounded; must be one that convolutions fuse
  MemoryFormat filter_format = kContiguous;  // of its gradient
};

struct ActivationAttr {
  Activation activation;
  std::size_t channel_axis = 1;
};

}  // namespace adjoint

namespace adjoint::cpu {
/// in: image, filter, bias (Cf) or undefined; out: feature, and, if defined, a tensor for the rounded sum and bias
/// before the activation.
void conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr);
/// in: feature, filter, bias (Ci) or undefined; out: image, and, if defined, a tensor for the rounded sum and bias
/// before the activation.
void conv_transpose(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr);
/// conv, or conv_transpose, with everything decided; empty if the filter is not frozen, or not in the dtype of the
/// computation. `out` has one tensor that is defined.
std::function<void()> prepare_conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr,
                                   bool transposed);
/// in: image, feature; out: filter.
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
/// No kernel reads operands in channels_last (see cuda's).
inline bool conv_channels_last(std::span<const Tensor>, Tensor&, const ConvAttr&, bool) { return false; }
inline bool conv_weight_channels_last(std::span<const Tensor>, Tensor&, const ConvGeometry&) { return false; }
/// in: grad, kept; out: z = activation_gradient(activation, grad, kept), and the sums of z over all axes but the
/// channels', with the bits of Tensor::sum. The tensors must not be empty.
void activation_and_bias_gradient(std::span<const Tensor> in, std::span<Tensor> out, const ActivationAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr);
void conv_transpose(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr);
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
/// conv, or conv_transpose, or conv_weight, whose image and feature are (N, H, W, C) in memory, with any strides of
/// their tensors. The filter that they read or write is contiguous or in channels_last. Return false, and do nothing,
/// if no kernel reads this format, or if copies are predicted to be faster.
bool conv_channels_last(std::span<const Tensor> in, Tensor& out, const ConvAttr& attr, bool transposed);
bool conv_weight_channels_last(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
/// In one pass over memory.
void activation_and_bias_gradient(std::span<const Tensor> in, std::span<Tensor> out, const ActivationAttr& attr);
}  // namespace adjoint::cuda

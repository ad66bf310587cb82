// The trio's kernels by device. Operands are contiguous and have the geometry's shapes; `out` is written whole.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/elementwise/activation.h>

#include <span>

namespace adjoint {

struct ConvAttr {
  ConvGeometry geometry;
  Activation activation = {};  // of sum and bias, before they are rounded; one that convolutions fuse
};

struct ActivationAttr {
  Activation activation;
};

}  // namespace adjoint

namespace adjoint::cpu {
/// in: image, filter, bias (Cf) or undefined; out: feature, and sum and bias as they are, rounded, where that is
/// defined.
void conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr);
/// in: feature, filter, bias (Ci) or undefined; out: image, and likewise.
void conv_transpose(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr);
/// in: image, feature; out: filter.
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
/// in: grad, kept; out: z = activation_gradient(activation, grad, kept), and the sums of z over all axes but axis 1,
/// the channels', with the bits of Tensor::sum. Not empty.
void activation_and_bias_gradient(std::span<const Tensor> in, std::span<Tensor> out, const ActivationAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr);
void conv_transpose(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr);
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
/// In one pass over memory.
void activation_and_bias_gradient(std::span<const Tensor> in, std::span<Tensor> out, const ActivationAttr& attr);
}  // namespace adjoint::cuda

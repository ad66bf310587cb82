// The trio's kernels by device. Operands are contiguous and have the geometry's shapes; `out` is written whole.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/elementwise/activation.h>

#include <span>

namespace adjoint {

struct ActivatedConv {
  ConvGeometry geometry;
  Activation activation;     // of sum and bias, before they are rounded
  Tensor* linear = nullptr;  // where it is not null, gets sum and bias as they are, rounded; like `out`
};

}  // namespace adjoint

namespace adjoint::cpu {
/// in: image, filter[, bias (Cf)]; out: feature.
void conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
void conv_activated(std::span<const Tensor> in, Tensor& out, const ActivatedConv& attr);
/// in: feature, filter[, bias (Ci)]; out: image.
void conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
void conv_transpose_activated(std::span<const Tensor> in, Tensor& out, const ActivatedConv& attr);
/// in: image, feature; out: filter.
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
void conv_activated(std::span<const Tensor> in, Tensor& out, const ActivatedConv& attr);
void conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
void conv_transpose_activated(std::span<const Tensor> in, Tensor& out, const ActivatedConv& attr);
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
/// One pass over memory: z = activation_gradient(activation, grad, kept); bias = the sums of z over all axes but axis
/// 1, the channels', with the bits of Tensor::sum. All contiguous, and not empty.
void activation_and_bias_gradient(const Activation& activation, const Tensor& grad, const Tensor& kept, Tensor& z,
                                  Tensor& bias);
}  // namespace adjoint::cuda

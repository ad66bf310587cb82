// The trio's kernels by device. Operands are contiguous and have the geometry's shapes; `out` is written whole.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/geometry.h>

#include <span>

namespace adjoint::cpu {
/// in: image, filter[, bias (Cf)]; out: feature.
void conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
/// in: feature, filter[, bias (Ci)]; out: image.
void conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
/// in: image, feature; out: filter.
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
void conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
}  // namespace adjoint::cuda

// Resampling along one axis by device. Operands are contiguous, float32 or float64; `out` is written whole. Tables are
// made a block of outputs at a time, so that they stay small.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/resample/band.h>

#include <span>

namespace adjoint::cpu {
/// in: image; out: resampled image.
void resample(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr);
/// in: resampled image; out: image. The transpose of resample's matrix.
void resample_adjoint(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void resample(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr);
void resample_adjoint(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr);
}  // namespace adjoint::cuda

// Resampling by device. Operands are contiguous; `out` is written completely.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/resample/band.h>

namespace adjoint {
namespace cpu {
/// One axis of images in float32 or float64, or with `transposed` its transpose. Tables are made for a block of outputs
/// at a time, so that they stay small.
void resample_axis(const Tensor& in, Tensor& out, const ResampleAttr& attr, bool transposed);
}  // namespace cpu

namespace cuda {
void resample_axis(const Tensor& in, Tensor& out, const ResampleAttr& attr, bool transposed);
/// Both axes at once, for any floating-point dtype. Returns false, without doing anything, if the images are too large
/// for that.
bool resample_plane(const Tensor& in, Tensor& out, const PlaneAttr& attr, bool transposed);
}  // namespace cuda
}  // namespace adjoint

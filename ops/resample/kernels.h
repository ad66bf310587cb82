// Resampling by device. Operands are contiguous; `out` is written whole.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/resample/band.h>

namespace adjoint {
namespace cpu {
/// One axis of images in float32 or float64, or with `transposed` the transpose of that. Tables are made a block of
/// outputs at a time, so that they stay small.
void resample_axis(const Tensor& in, Tensor& out, const ResampleAttr& attr, bool transposed);
}  // namespace cpu

namespace cuda {
void resample_axis(const Tensor& in, Tensor& out, const ResampleAttr& attr, bool transposed);
/// Both axes at once, of any floating-point dtype. False where the images are too large for that: nothing is done.
bool resample_plane(const Tensor& in, Tensor& out, const PlaneAttr& attr, bool transposed);
}  // namespace cuda
}  // namespace adjoint

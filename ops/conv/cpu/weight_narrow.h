// conv_weight if a group's channels would not fill a vector.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/cpu/dispatch.h>
#include <adjoint/ops/conv/geometry.h>

#include <algorithm>

namespace adjoint::cpu {

/// Returns true if a vector along rows does more work than one along channels, and rows are split for few enough
/// residues.
template <class T>
bool is_narrow(const ConvGeometry& g) {
  constexpr std::int64_t kMostStride = 16;
  const std::int64_t channels = std::max(g.image_channels_per_group(), g.feature_channels_per_group());
  return 2 * channels <= product_kernels<T>().lanes && g.stride.w <= kMostStride;
}

/// image, feature -> filter; T is float or double.
template <class T>
void narrow_weight(const Tensor& image, const Tensor& feature, Tensor& filter, const ConvGeometry& geometry);

}  // namespace adjoint::cpu

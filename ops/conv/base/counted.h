// Checks if a problem is small enough for 32-bit indices.
#pragma once

#include <adjoint/ops/conv/geometry.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

/// Returns true if 30 bits hold every place in a tensor and every position that a tap may touch, and no tensor is
/// empty.
inline bool is_counted(const ConvGeometry& g) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (g.batch == 0 || g.image_numel() >= kMost || g.feature_numel() >= kMost || g.filter_numel() >= kMost) return false;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t most =
        kMost / std::max(g.image.in_plane(axis), std::max(g.feature.in_plane(axis), g.kernel.in_plane(axis)));
    if (g.stride.in_plane(axis) >= most || g.dilation.in_plane(axis) >= most || g.padding.in_plane(axis) >= kMost)
      return false;
  }
  return g.image_numel() > 0 && g.feature_numel() > 0 && g.filter_numel() > 0;
}

}  // namespace adjoint::cuda

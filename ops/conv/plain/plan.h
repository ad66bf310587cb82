// The cut of the plain kernels' work: it follows from the shape alone, so that results do not depend on the GPU.
#pragma once

#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/geometry.h>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kPlainThreads = 128;  // of a block, each with a position
inline constexpr int kPlainChannels = 4;   // of the result that a thread computes, if a group has several

// For conv_weight.
inline constexpr int kPlainWeightThreads = 256;
/// Terms that a thread adds up before they join its total, which keeps rounding errors of long sums small.
inline constexpr int kPlainTermsPerSum = 64;

/// Tiles of `channels` channels of both operands, with one tap; at least one.
inline std::int64_t plain_weight_tiles(const ConvGeometry& g, std::int64_t channels) {
  const std::int64_t pairs =
      ceil_div(g.image_channels_per_group(), channels) * ceil_div(g.feature_channels_per_group(), channels);
  return std::max<std::int64_t>(g.taps() * g.groups * pairs, 1);
}

/// Parts of each sum if there are this many tiles.
inline std::int64_t plain_weight_parts(const ConvGeometry& g, std::int64_t tiles) {
  constexpr std::int64_t kWantedBlocks = 2048;  // these fill any current GPU several times over
  const std::int64_t most = ceil_div(g.batch * g.feature_plane(), kPlainWeightThreads * kPlainTermsPerSum);
  return std::clamp<std::int64_t>(ceil_div(kWantedBlocks, tiles), 1, std::max<std::int64_t>(most, 1));
}

}  // namespace adjoint::cuda

// The schedules of the CUDA kernels for few results a position that are long sums, for example a discriminator's last
// layer with one channel. Plain C++ for host and device, tested without a GPU; README.md describes the division of
// work.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kFewResults = 4;     // most channels of a group's result; for a filter, of either operand
inline constexpr int kFewTaps = 4;        // taps of a warp's tile of a filter that has several
inline constexpr int kFewThreads = 256;   // of a block, at most
inline constexpr int kFewMaxStride = 16;  // of conv_transpose

/// The taps of one residue of result positions: tap + t * tap_step at source positions source + t * source_step.
struct FewResultsRun {
  std::int32_t taps, tap, source;
};

/// Result position j * residues + r sums run[r], with source positions j * period_source further on.
struct FewResultsAxis {
  std::int32_t result, source;       // extents
  std::int32_t residues, positions;  // conv: 1; conv_transpose: the stride. positions: of a residue, at most
  std::int32_t period_source, tap_step, source_step;
  FewResultsRun run[kFewMaxStride];
};

/// conv and conv_transpose. A block computes all channels of `lanes` positions over a slice of the source channels; its
/// threads are (channel lane, position). Positions are one line: residues, then samples, rows, columns.
struct FewResultsPlan {
  FewResultsAxis h, w;
  std::int32_t batch, groups, channels, source_channels;  // channels: a group's
  std::int32_t kernel_w;
  std::int32_t filter_channel, filter_source, filter_group;  // the filter's strides
  std::int32_t lanes, channel_lanes;                         // powers of two; their product is a block's threads
  std::int32_t total, tiles;                                 // positions of a group, and their blocks
  std::int32_t slices, slice_channels;
  Divider row_divider, plane_divider, batch_divider, residue_divider;  // columns, rows, samples, residues of columns

  ADJOINT_HD std::int32_t threads() const { return lanes * channel_lanes; }
  std::int64_t blocks() const { return std::int64_t{tiles} * slices * groups; }
  std::int64_t results() const { return std::int64_t{batch} * groups * channels * h.result * w.result; }
  /// For the slices' sums.
  std::int64_t workspace_bytes() const { return slices > 1 ? 4 * slices * results() : 0; }
};

/// The place of a position of the line.
struct FewResultsPlace {
  std::int32_t sample, row, column;        // of the result; rows and columns may be outside
  std::int32_t source_row, source_column;  // of tap 0
  std::int32_t residue_h, residue_w;
};

ADJOINT_HD inline FewResultsPlace few_results_place(const FewResultsPlan& p, std::int32_t n) {
  std::int32_t column = n;
  std::int32_t row = p.row_divider.split(column), sample = p.plane_divider.split(row);
  std::int32_t residue_w = p.batch_divider.split(sample);
  const std::int32_t residue_h = p.residue_divider.split(residue_w);
  return {sample,
          row * p.h.residues + residue_h,
          column * p.w.residues + residue_w,
          p.h.run[residue_h].source + row * p.h.period_source,
          p.w.run[residue_w].source + column * p.w.period_source,
          residue_h,
          residue_w};
}

/// A plan of conv, or of conv_transpose. False for more channels of a group's result than kFewResults, for a stride of
/// conv_transpose above kFewMaxStride, for batch 0, and for problems too large to count in 30 bits.
ADJOINT_API bool plan_few_results(const ConvGeometry& geometry, bool transposed, const Machine& machine,
                                  FewResultsPlan& plan);

/// The kernels' time in any arithmetic, in clocks from start to end.
ADJOINT_API double few_results_clocks(const FewResultsPlan& plan, const Machine& machine);

/// conv_weight with few channels of one operand. A warp owns a tile of channels of both operands and some taps, 16 sums
/// at most, over a slice of the feature's positions, which its lanes share; the samples form one line.
struct FewWeightPlan {
  Extent2 image, feature;
  std::int32_t stride[2], padding[2], dilation[2];
  std::int32_t batch, groups, image_channels, feature_channels;  // channels: a group's
  std::int32_t kernel_w, taps;
  std::int32_t tile_image, tile_feature, tile_taps;  // of a warp
  std::int32_t image_tiles, feature_tiles, tap_tiles;
  std::int32_t total, slices, slice_positions;
  Divider row_divider, plane_divider;

  /// Tiles of a slice.
  ADJOINT_HD std::int32_t tiles() const { return groups * image_tiles * feature_tiles * tap_tiles; }
  std::int64_t filter_numel() const { return std::int64_t{groups} * feature_channels * image_channels * taps; }
  std::int64_t blocks() const { return (std::int64_t{tiles()} * slices + kFewThreads / 32 - 1) / (kFewThreads / 32); }
  std::int64_t workspace_bytes() const { return slices > 1 ? 4 * slices * filter_numel() : 0; }
};

/// The sums of a warp.
struct FewWeightTile {
  std::int32_t slice, group, image_channel, feature_channel, tap;  // the first of each in the group
};

ADJOINT_HD inline FewWeightTile few_weight_tile(const FewWeightPlan& p, std::int32_t index) {
  FewWeightTile tile;
  tile.tap = index % p.tap_tiles * p.tile_taps;
  index /= p.tap_tiles;
  tile.feature_channel = index % p.feature_tiles * p.tile_feature;
  index /= p.feature_tiles;
  tile.image_channel = index % p.image_tiles * p.tile_image;
  index /= p.image_tiles;
  tile.group = index % p.groups;
  tile.slice = index / p.groups;
  return tile;
}

/// False if both operands have more than kFewResults channels a group, for batch 0, and for problems too large to count
/// in 30 bits.
ADJOINT_API bool plan_few_weight(const ConvGeometry& geometry, const Machine& machine, FewWeightPlan& plan);
/// The kernels' time, in clocks from start to end.
ADJOINT_API double few_weight_clocks(const FewWeightPlan& plan, Arithmetic arithmetic, const Machine& machine);

}  // namespace adjoint::cuda

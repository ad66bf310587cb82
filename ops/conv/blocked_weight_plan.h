// The schedule of conv_weight from copies of both operands in channel blocks (channel_blocks.h), in half precision:
// plain C++ for host and device, tested without a GPU.
//
//     filter[f][c][tap] = sum over positions q of feature[f][q] * image[c][q * stride + tap]
//
// Both copies are flat, with the same rows and columns, so that a tap is one distance along the line. wgmma sums over
// positions, takes either operand's channels as they lie, and begins anywhere in the line: a stage holds a run of
// positions of 128 feature channels, and of 64 image channels for all the taps that are near each other.
//
// A unit is one tap of 64 image channels; a tile is four units and 128 feature channels. Units are numbered channels
// by channels, taps in order of their place, and cut into tiles as they come. The line is cut into slices, whose sums
// another kernel adds up as it puts taps last (tapwise_plan.h). The geometry alone says how many there are.
#pragma once

#include <adjoint/core/divider.h>
#include <adjoint/core/export.h>
#include <adjoint/ops/conv/channel_blocks.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/tapwise_plan.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kWeightUnitChannels = 64;
inline constexpr int kWeightTileUnits = 4;  // two of each multiplying warpgroup
inline constexpr int kWeightTileFeatures = 128;
inline constexpr int kWeightStage = 64;  // positions
inline constexpr int kWeightHalo = 64;   // most positions that a box of the image has beyond a stage's
inline constexpr int kMostWeightSlots = 8;
inline constexpr int kMostBlockedTaps = 64;

/// A tap: the box of the image that it reads, and from which of its positions on. Taps of a box are neighbours in the
/// list.
struct BlockedWeightTap {
  std::int16_t tap;  // of the filter
  std::int16_t box, shift;
};

/// A box of the image that some taps share: where it begins, from a stage's first position, and the first block of its
/// plane.
struct BlockedWeightBox {
  std::int32_t first, block;
};

struct BlockedWeightPlan {
  ChannelBlocks image, feature;
  std::int32_t taps, units, row_tiles, column_tiles;
  std::int32_t stages, slices, slice_stages;  // of the line; of a slice, at most
  std::int32_t box_positions, boxes;          // of a stage's boxes of the image: of one; the most that a tile has
  std::int32_t slots;
  Divider tap_divider, row_divider, column_divider;
  BlockedWeightTap tap_list[kMostBlockedTaps];
  BlockedWeightBox box_list[kMostBlockedTaps];
  TapGather gather;
  bool pays;  // whether it is quicker, copies and all

  ADJOINT_HD std::int32_t tiles() const { return row_tiles * column_tiles * slices; }
  ADJOINT_HD std::int32_t feature_bytes() const { return 2 * kWeightTileFeatures * kWeightStage; }
  ADJOINT_HD std::int32_t box_bytes() const { return 2 * kWeightUnitChannels * box_positions; }
  ADJOINT_HD std::int32_t slot_bytes() const { return feature_bytes() + boxes * box_bytes(); }
  std::int64_t sums_bytes() const { return 4 * gather.count * taps * slices; }
};

/// A tile: its first unit and feature channel, its units, and its stages.
struct BlockedWeightTile {
  std::int32_t unit, units, feature, slice, stage, stages;
};

/// Tiles of the same stages follow each other.
ADJOINT_HD inline BlockedWeightTile blocked_weight_tile(const BlockedWeightPlan& p, std::int32_t index) {
  BlockedWeightTile tile;
  std::int32_t column_tile = p.row_divider.split(index);
  tile.slice = p.column_divider.split(column_tile);
  tile.unit = index * kWeightTileUnits;
  tile.units = p.units - tile.unit < kWeightTileUnits ? p.units - tile.unit : kWeightTileUnits;
  tile.feature = column_tile * kWeightTileFeatures;
  tile.stage = tile.slice * p.slice_stages;
  tile.stages = p.stages - tile.stage < p.slice_stages ? p.stages - tile.stage : p.slice_stages;
  return tile;
}

/// A unit: its first image channel, and its tap's place in the list.
struct BlockedWeightUnit {
  std::int32_t channel, tap;
};

ADJOINT_HD inline BlockedWeightUnit blocked_weight_unit(const BlockedWeightPlan& p, std::int32_t unit) {
  const std::int32_t channels = p.tap_divider.split(unit);
  return {channels * kWeightUnitChannels, unit};
}

/// Whether a unit of a tile reads the same box as the one before it.
ADJOINT_HD inline bool shares_box(const BlockedWeightPlan& p, std::int32_t unit) {
  const BlockedWeightUnit before = blocked_weight_unit(p, unit - 1), at = blocked_weight_unit(p, unit);
  return before.channel == at.channel && p.tap_list[before.tap].box == p.tap_list[at.tap].box;
}

/// Which of its tile's boxes a unit reads.
ADJOINT_HD inline std::int32_t blocked_weight_box(const BlockedWeightPlan& p, const BlockedWeightTile& tile,
                                                  std::int32_t unit) {
  std::int32_t box = 0;
  for (std::int32_t i = tile.unit + 1; i <= unit; ++i) box += !shares_box(p, i);
  return box;
}

/// False for groups, 1 x 1 taps, more than kMostBlockedTaps, an empty batch or filter, copies of more than
/// kMostCopyBytes, and very large extents.
ADJOINT_API bool plan_blocked_weight(const ConvGeometry& geometry, BlockedWeightPlan& plan);

/// Whether the plan is quicker than any other kernel, as models of clocks tell, copies included.
ADJOINT_API bool blocked_weight_pays(const ConvGeometry& geometry, const BlockedWeightPlan& plan);

}  // namespace adjoint::cuda

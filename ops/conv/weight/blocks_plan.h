// The schedule of conv_weight from copies of both operands in channel blocks (channel_blocks.h), in half precision:
// plain C++ for host and device, tested without a GPU.
//
//     filter[f][c][tap] = sum over positions q of feature[f][q] * image[c][q * stride + tap]
//
// Both copies are flat, with the same rows and columns, so that a tap is one distance along the line. wgmma sums over
// positions, reads either operand's channels in their order, and begins anywhere in the line: a stage holds a run of
// positions of some channels of both, and of the image's for all the taps that are near each other.
//
// Rows of the products are one operand's channels, columns the other's; padding decides which is which. A unit is one
// tap of 64 rows; a tile is four units and 128 columns. Units are numbered rows by rows, taps in order of their place,
// and cut into tiles in that order. The line is cut into slices, whose sums another kernel adds up as it puts taps last
// (sums/taps.h). The geometry alone determines their number.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/channel_blocks.h>
#include <adjoint/ops/conv/sums/taps.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kWeightUnitRows = 64;
inline constexpr int kWeightTileUnits = 4;  // two of each multiplying warpgroup
inline constexpr int kWeightTileColumns = 128;
inline constexpr int kWeightStage = 64;  // positions
inline constexpr int kWeightHalo = 64;   // most positions that a box of the image has beyond a stage's
inline constexpr int kMostWeightSlots = 8;
inline constexpr int kWeightBarrierBytes = 1024;  // before the slots
inline constexpr int kMostBlockedTaps = 64;

/// A tap: the box of the image that it reads, and its first position there. Taps of a box are neighbours in the list.
struct BlockedWeightTap {
  std::int16_t tap;  // of the filter
  std::int16_t box, shift;
};

/// A box of the image that some taps share: its start, relative to a stage's first position, and the first block of its
/// plane.
struct BlockedWeightBox {
  std::int32_t first, block;
};

struct BlockedWeightPlan {
  ChannelBlocks image, feature;
  bool rows_are_image;
  std::int32_t taps, units, row_tiles, column_tiles;
  std::int32_t stages, slices, slice_stages;  // of the line; of a slice, at most
  std::int32_t image_positions;               // of a box of the image: a stage's, plus the distance of its taps
  std::int32_t row_boxes, column_boxes;       // of a stage, of either operand: the most that a tile has
  std::int32_t slots;
  Divider tap_divider, row_divider, column_divider;
  BlockedWeightTap tap_list[kMostBlockedTaps];
  BlockedWeightBox box_list[kMostBlockedTaps];
  TapGather gather;

  ADJOINT_HD std::int32_t tiles() const { return row_tiles * column_tiles * slices; }
  ADJOINT_HD const ChannelBlocks& rows() const { return rows_are_image ? image : feature; }
  ADJOINT_HD const ChannelBlocks& columns() const { return rows_are_image ? feature : image; }
  ADJOINT_HD std::int32_t row_positions() const { return rows_are_image ? image_positions : kWeightStage; }
  ADJOINT_HD std::int32_t column_positions() const { return rows_are_image ? kWeightStage : image_positions; }
  /// For a box.
  ADJOINT_HD std::int32_t row_bytes() const { return 2 * kWeightUnitRows * row_positions(); }
  ADJOINT_HD std::int32_t column_bytes() const { return 2 * kWeightTileColumns * column_positions(); }
  ADJOINT_HD std::int32_t slot_bytes() const { return row_boxes * row_bytes() + column_boxes * column_bytes(); }
  std::int32_t smem_bytes() const { return kWeightBarrierBytes + slots * slot_bytes(); }
  std::int64_t sums_bytes() const { return 4 * gather.count * taps * slices; }
};

/// A tile: its first unit and column, its units, and its stages.
struct BlockedWeightTile {
  std::int32_t unit, units, column, slice, stage, stages;
};

/// Tiles of the same stages follow each other.
ADJOINT_HD inline BlockedWeightTile blocked_weight_tile(const BlockedWeightPlan& p, std::int32_t index) {
  BlockedWeightTile tile;
  std::int32_t column_tile = p.row_divider.split(index);
  tile.slice = p.column_divider.split(column_tile);
  tile.unit = index * kWeightTileUnits;
  tile.units = p.units - tile.unit < kWeightTileUnits ? p.units - tile.unit : kWeightTileUnits;
  tile.column = column_tile * kWeightTileColumns;
  tile.stage = tile.slice * p.slice_stages;
  tile.stages = p.stages - tile.stage < p.slice_stages ? p.stages - tile.stage : p.slice_stages;
  return tile;
}

/// A unit: its first row, and its tap's place in the list.
struct BlockedWeightUnit {
  std::int32_t row, tap;
};

ADJOINT_HD inline BlockedWeightUnit blocked_weight_unit(const BlockedWeightPlan& p, std::int32_t unit) {
  const std::int32_t rows = p.tap_divider.split(unit);
  return {rows * kWeightUnitRows, unit};
}

/// Of rows and of columns.
struct BlockedWeightBoxes {
  std::int32_t row, column;
};

/// 1 if a unit of a tile reads other boxes than the one before it, else 0.
ADJOINT_HD inline BlockedWeightBoxes begins_boxes(const BlockedWeightPlan& p, std::int32_t unit) {
  const BlockedWeightUnit before = blocked_weight_unit(p, unit - 1), at = blocked_weight_unit(p, unit);
  const bool row = before.row != at.row, image = p.tap_list[before.tap].box != p.tap_list[at.tap].box;
  return {row || (p.rows_are_image && image), !p.rows_are_image && image};
}

/// The boxes of its tile that a unit reads.
ADJOINT_HD inline BlockedWeightBoxes blocked_weight_boxes(const BlockedWeightPlan& p, const BlockedWeightTile& tile,
                                                          std::int32_t unit) {
  BlockedWeightBoxes boxes{0, 0};
  for (std::int32_t i = tile.unit + 1; i <= unit; ++i) {
    const BlockedWeightBoxes begins = begins_boxes(p, i);
    boxes = {boxes.row + begins.row, boxes.column + begins.column};
  }
  return boxes;
}

/// False for groups, 1 x 1 taps, more than kMostBlockedTaps, an empty batch or filter, copies of more than
/// kMostCopyBytes, and very large extents.
ADJOINT_API bool plan_blocked_weight(const ConvGeometry& geometry, const Machine& machine, BlockedWeightPlan& plan);

/// The modelled time of the plan's kernels after the copies, in clocks of a multiprocessor.
ADJOINT_API double blocked_weight_clocks(const BlockedWeightPlan& plan, const Machine& machine);

}  // namespace adjoint::cuda

// The schedule of the tensor-core kernels for conv_weight: plain C++ for host and device, tested without a GPU.
//
//   filter[f][c][tap] = sum over images n and feature positions o of feature[n][f][o] * image[n][c][o * stride -
//   padding + tap * dilation]
//
// is a product whose rows are (tap, image channel), whose columns are feature channels and whose summed index runs over
// positions, which are contiguous in both operands. A block computes kRows x kColumns of it for one split of the
// positions: stage by stage it keeps a tile of tile_h x tile_w positions of each of its feature channels, and the
// elements of its image channels that its taps read there; for small planes, of tile_n images together. The image is
// split into planes by its position mod stride, so that a row reads at unit stride at one constant offset. Rows are
// ordered by tap within a block of channels: neighbouring rows are neighbouring channels. The number of splits depends
// on the shape alone, and partial sums are added in order.
//
// Three kernels share this walk: weight/cuda/mma/kernel.cuh (mma.sync, sm_80 and later), weight/cuda/copied/kernel.cuh
// (wgmma, sm_90a) and weight/cuda/boxes/kernel.cuh, whose stages the copy engine brings (`boxes`). A box is the
// unchanged image, line by line of all of the block's channels, not split by the stride: positions are a stride apart.
// If the stride is even, neighbouring taps are neighbouring rows, so a fragment's values still fall into different
// banks.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/unshuffle.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kMaxTapBlocks = 256;
inline constexpr int kMaxWeightResidues = 4;

/// The tile shapes that are compiled; eight warps share a tile.
struct WeightTile {
  int rows, columns;
};
inline constexpr WeightTile kWeightTiles[] = {{256, 128}, {256, 64}, {256, 32}, {256, 8}};
/// For the wgmma kernels: two warpgroups share a tile's rows.
inline constexpr WeightTile kWgmmaWeightTiles[] = {{256, 128}, {128, 128}, {384, 64}, {256, 64},
                                                   {128, 64},  {768, 32},  {384, 32}, {384, 16}};
/// True if a thread's registers hold sums, totals and places of rows, which float32 needs.
ADJOINT_HD constexpr bool wgmma_weight_splits(WeightTile tile) { return tile.rows / 128 * (tile.columns + 2) <= 200; }
/// The fewest positions of a wgmma kernel's stage, a power of two of at most 128: a line of 128 bytes, and enough
/// features in flight for each loader.
ADJOINT_HD constexpr int wgmma_weight_positions(int columns, int unit_elements) {
  return columns >= 128 && unit_elements == 1 ? 32 : columns >= 64 ? 64 : 128;
}
inline constexpr int kMaxWeightStages = 8;  // in shared memory

/// The taps of a block's rows, and the start of its stage of the image.
struct WeightTapBlock {
  std::int32_t first_tap, taps;
  std::int32_t h_base, w_base;  // relative to the tile's first position, in units of stride; of a box, in elements
  std::int32_t first_plane_h, first_plane_w;
};

struct WeightPlan {
  std::int32_t groups;
  std::int64_t batch;
  std::int32_t unit_elements;                     // of a 32-bit unit: 1, or 2 halves
  std::int32_t image_channels, feature_channels;  // a group
  std::int32_t image_h, image_w, feature_h, feature_w;
  std::int32_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  std::int32_t tile_rows, tile_columns;                // of the product
  std::int32_t log2_tile_n, log2_tile_h, log2_tile_w;  // positions of a stage; mma.sync's have one image
  std::int32_t tiles_n, tiles_h, tiles_w;
  std::int64_t stages;  // tiles_n * tiles_h * tiles_w
  std::int32_t splits;
  std::int64_t stages_per_split;
  std::int32_t block_channels, channel_blocks;  // image channels of a block
  std::int32_t tap_blocks, column_blocks;
  std::int32_t planes_h, planes_w, rows, cols;  // of a channel's stage, each image
  std::int32_t image_pitch, feature_pitch;      // elements from one channel of a stage to the next
  bool boxes;
  std::int32_t row_taps;    // neighbours that are neighbouring rows
  std::int32_t log2_box_w;  // boxes: of the pieces of the image's rows; 0 if rows are whole
  // Boxes: rows of channels this many apart begin at the same place between multiples of 16 bytes. A block's channels
  // are staged in that many boxes, and are its rows in that order.
  std::int32_t residues;
  std::int32_t quad_offsets[5];  // wgmma: weight_position_offset() of four units, eight, and so on; 0 beyond a stage
  std::int32_t smem_stages;
  WeightTapBlock tap_block[kMaxTapBlocks];

  ADJOINT_HD std::int32_t log2_positions() const { return log2_tile_n + log2_tile_h + log2_tile_w; }
  /// Elements of a channel's stage of one image.
  ADJOINT_HD std::int32_t image_stage() const { return planes_h * planes_w * rows * cols; }
  ADJOINT_HD std::int64_t blocks_per_split() const {
    return std::int64_t{groups} * channel_blocks * tap_blocks * column_blocks;
  }
  /// Elements of a line of a box, all of its channels; of all of its lines.
  ADJOINT_HD std::int32_t line_elements() const { return block_channels / residues * cols; }
  ADJOINT_HD std::int32_t box_elements() const { return rows * line_elements() << log2_tile_n; }
  /// Boxes: a block's channel in the order of boxes, and the reverse.
  ADJOINT_HD std::int32_t staged_channel(std::int32_t channel) const {
    return residues == 1 ? channel : channel % residues * (block_channels / residues) + channel / residues;
  }
  ADJOINT_HD std::int32_t channel_staged(std::int32_t place) const {
    const std::int32_t in_box = block_channels / residues;
    return residues == 1 ? place : place % in_box * residues + place / in_box;
  }
  /// Boxes: elements from a multiple of 16 bytes to the row of a channel.
  ADJOINT_HD std::int32_t row_shift(std::int32_t channel) const {
    return residues == 1 ? 0
                         : static_cast<std::int32_t>(std::int64_t{channel % residues} * image_w % (4 * unit_elements));
  }
  /// Boxes: positions in a line of 128 bytes of features.
  ADJOINT_HD std::int32_t line_positions() const { return 32 * unit_elements; }
  /// Boxes: true if such a line holds several rows of a plane, all of it.
  ADJOINT_HD bool joins_rows() const { return 1 << log2_tile_w < line_positions(); }
};

/// For a filter whose taps are channels here (strides as channels, layouts/orders.h): tap (h, w) of channel c *
/// residues + r is channel c's tap (h * stride_h + r / residues_w, w * stride_w + r % residues_w), if it exists.
struct WeightOrder {
  std::int32_t residues_h = 1, residues_w = 1, stride_h = 1, stride_w = 1;
  std::int32_t kernel_h = 0, kernel_w = 0;  // the filter's; 0 if taps keep their order

  /// Taps of a channel of the filter.
  ADJOINT_HD std::int32_t taps(const WeightPlan& p) const {
    return kernel_h == 0 ? p.kernel_h * p.kernel_w : kernel_h * kernel_w;
  }
  /// Channels that make up one of the filter's.
  ADJOINT_HD std::int32_t residues() const { return residues_h * residues_w; }
  /// A tap's place among those of the same feature channel, negative if there is none.
  ADJOINT_HD std::int64_t place(const WeightPlan& p, std::int32_t channel, std::int32_t tap) const {
    if (kernel_h == 0) return std::int64_t{channel} * p.kernel_h * p.kernel_w + tap;
    const std::int32_t c = channel / residues(), r = channel - c * residues();
    const std::int32_t h = tap / p.kernel_w * stride_h + r / residues_w,
                       w = tap % p.kernel_w * stride_w + r % residues_w;
    return h < kernel_h && w < kernel_w ? (std::int64_t{c} * kernel_h + h) * kernel_w + w : -1;
  }
};

/// The order of taps in conv_weight's result for a filter that is taken apart that way.
ADJOINT_API WeightOrder weight_order(const Unshuffle& filter);

/// One block's part of the product.
struct WeightWork {
  std::int32_t group, first_channel, tap_block, first_column;
};

/// `block` is below 2^31; 32-bit divisions take a tenth of the time.
ADJOINT_HD inline WeightWork weight_work(const WeightPlan& p, std::int64_t block) {
  const auto columns = static_cast<std::uint32_t>(p.column_blocks), taps = static_cast<std::uint32_t>(p.tap_blocks);
  const auto channels = static_cast<std::uint32_t>(p.channel_blocks), index = static_cast<std::uint32_t>(block);
  const std::uint32_t rows = index / columns, channel = rows / taps, group = channel / channels;
  WeightWork work;
  work.first_column = static_cast<std::int32_t>(index - rows * columns) * p.tile_columns;
  work.tap_block = static_cast<std::int32_t>(rows - channel * taps);
  work.first_channel = static_cast<std::int32_t>(channel - group * channels) * p.block_channels;
  work.group = static_cast<std::int32_t>(group);
  return work;
}

/// Row `row` of a block: a channel relative to the block's first, and a tap.
struct WeightRow {
  std::int32_t channel, tap;
  bool valid;
};

ADJOINT_HD inline WeightRow weight_row(const WeightPlan& p, const WeightWork& work, std::int32_t row) {
  const WeightTapBlock& taps = p.tap_block[work.tap_block];
  WeightRow result;
  const std::int32_t together = p.block_channels * p.row_taps, first = row / together, rest = row - first * together;
  const std::int32_t place = rest / p.row_taps, tap = first * p.row_taps + rest - place * p.row_taps;
  result.channel = p.channel_staged(place);
  result.tap = taps.first_tap + tap;
  result.valid = tap < taps.taps && work.first_channel + result.channel < p.image_channels;
  return result;
}

ADJOINT_HD inline std::int32_t weight_floor_div(std::int64_t a, std::int32_t b) {
  return static_cast<std::int32_t>(a >= 0 ? a / b : -((-a + b - 1) / b));
}

/// Elements from a stage's image operand to the value that a valid row reads at the stage's first position.
ADJOINT_HD inline std::int32_t weight_row_offset(const WeightPlan& p, const WeightWork& work, const WeightRow& row) {
  const WeightTapBlock& taps = p.tap_block[work.tap_block];
  const std::int64_t h = static_cast<std::int64_t>(row.tap / p.kernel_w) * p.dilation_h - p.padding_h;
  const std::int64_t w = static_cast<std::int64_t>(row.tap % p.kernel_w) * p.dilation_w - p.padding_w;
  if (p.boxes) {
    return row.channel % p.residues * p.box_elements() +
           static_cast<std::int32_t>(h - taps.h_base) * p.line_elements() + row.channel / p.residues * p.cols +
           static_cast<std::int32_t>(w - taps.w_base) + p.row_shift(row.channel);
  }
  const std::int32_t offset_h = weight_floor_div(h, p.stride_h), offset_w = weight_floor_div(w, p.stride_w);
  const auto plane_h = static_cast<std::int32_t>(h - static_cast<std::int64_t>(offset_h) * p.stride_h);
  const auto plane_w = static_cast<std::int32_t>(w - static_cast<std::int64_t>(offset_w) * p.stride_w);
  const std::int32_t plane = (plane_h - taps.first_plane_h) * p.planes_w + plane_w - taps.first_plane_w;
  return row.channel * p.image_pitch + (plane * p.rows + offset_h - taps.h_base) * p.cols + offset_w - taps.w_base;
}

/// Elements from the value that a row reads at a stage's first position to the one it reads at `position`; a position's
/// bits are image, row and column of the tile.
ADJOINT_HD inline std::int32_t weight_position_offset(const WeightPlan& p, std::int32_t position) {
  const std::int32_t w = position & ((1 << p.log2_tile_w) - 1);
  const std::int32_t h = (position >> p.log2_tile_w) & ((1 << p.log2_tile_h) - 1);
  const std::int32_t n = position >> (p.log2_tile_w + p.log2_tile_h);
  if (p.boxes) return (n * p.rows + h * p.stride_h) * p.line_elements() + w * p.stride_w;
  return n * p.image_stage() + h * p.cols + w;
}

/// A vector of a channel's stage: its place there, and in the image, counted from the first image, row and column that
/// the stage reads.
struct WeightItem {
  std::int32_t n, h, w, element;
};

/// Neighbouring elements are neighbours in the image: with a stride, a vector's elements belong to the planes along the
/// row in turn, and `element` is the first one's. A stage has (tile_n * image_stage()) / vector items.
ADJOINT_HD inline WeightItem weight_item(const WeightPlan& p, std::uint32_t item, int vector) {
  const auto planes_w = static_cast<std::uint32_t>(p.planes_w), rows = static_cast<std::uint32_t>(p.rows);
  const std::uint32_t in_line = planes_w * static_cast<std::uint32_t>(p.cols) / static_cast<std::uint32_t>(vector);
  const std::uint32_t at = item % in_line * static_cast<std::uint32_t>(vector);
  std::uint32_t line = item / in_line;
  const auto plane_w = static_cast<std::int32_t>(at % planes_w), col = static_cast<std::int32_t>(at / planes_w);
  const auto row = static_cast<std::int32_t>(line % rows);
  line /= rows;
  const auto plane_h = static_cast<std::int32_t>(line % static_cast<std::uint32_t>(p.planes_h));
  const auto n = static_cast<std::int32_t>(line / static_cast<std::uint32_t>(p.planes_h));
  const std::int32_t plane = (n * p.planes_h + plane_h) * p.planes_w + plane_w;
  return {n, row * p.stride_h + plane_h, col * p.stride_w + plane_w, (plane * p.rows + row) * p.cols + col};
}

/// Elements of the image that one copy of a wgmma kernel moves if rows' alignment allows `vector`.
ADJOINT_HD inline std::int32_t wgmma_image_vector(const WeightPlan& p, std::int32_t vector) {
  if (p.stride_w == 1) return vector;
  // Halves are sorted by plane during the copy; float32 is copied one by one, asynchronously.
  bool sorts = p.unit_elements == 2 && p.planes_w == p.stride_w;
  for (std::int32_t b = 0; b < p.tap_blocks; ++b) sorts = sorts && p.tap_block[b].first_plane_w == 0;
  if (!sorts) return 1;
  if (vector == 8 && (p.stride_w == 2 || p.stride_w == 4 || p.stride_w == 8)) return 8;
  return vector >= 2 && p.stride_w == 2 ? 2 : 1;
}

/// Bytes from a wgmma kernel's stage to `position` of feature channel `column` in it: rows of 128 bytes of positions,
/// their 16-byte chunks exchanged as wgmma's 128-byte swizzle wants them.
ADJOINT_HD inline std::int32_t wgmma_feature_place(const WeightPlan& p, std::int32_t column, std::int32_t position) {
  const std::int32_t byte = position * (4 / p.unit_elements);
  return ((byte >> 7) * p.tile_columns + column) * 128 + ((byte & 127) ^ (column & 7) << 4);
}

/// The row of a block's channel and tap, both counted from its first.
ADJOINT_HD inline std::int32_t weight_row_index(const WeightPlan& p, std::int32_t channel, std::int32_t tap) {
  const std::int32_t together = tap / p.row_taps;
  return (together * p.block_channels + p.staged_channel(channel)) * p.row_taps + tap - together * p.row_taps;
}

/// The first positions of a stage.
struct WeightStage {
  std::int64_t n;
  std::int32_t h, w;
};

/// `stage` must also be below 2^31.
ADJOINT_HD inline WeightStage weight_stage(const WeightPlan& p, std::int64_t stage) {
  const auto rest = static_cast<std::uint32_t>(stage);
  const auto tiles_w = static_cast<std::uint32_t>(p.tiles_w), tiles_h = static_cast<std::uint32_t>(p.tiles_h);
  const std::uint32_t line = rest / tiles_w, n = line / tiles_h;
  WeightStage result;
  result.w = static_cast<std::int32_t>(rest - line * tiles_w) << p.log2_tile_w;
  result.h = static_cast<std::int32_t>(line - n * tiles_h) << p.log2_tile_h;
  result.n = std::int64_t{n} << p.log2_tile_n;
  return result;
}

/// Bytes of an mma.sync kernel's stage: the image's part, and with the feature's behind it the whole.
ADJOINT_HD inline std::int64_t mma_image_bytes(const WeightPlan& p, int element_bytes) {
  return std::int64_t{element_bytes} * p.block_channels * p.image_pitch;
}
ADJOINT_HD inline std::int64_t mma_stage_bytes(const WeightPlan& p, int element_bytes) {
  return mma_image_bytes(p, element_bytes) + std::int64_t{element_bytes} * p.tile_columns * p.feature_pitch;
}

/// Bytes of dynamic shared memory that a block uses; of the workspace of partial sums.
ADJOINT_API std::int64_t weight_smem_bytes(const WeightPlan& plan);
ADJOINT_API std::int64_t weight_workspace_bytes(const WeightPlan& plan);

/// False if the kernels do not support the geometry: extents from 2^28 on, planes or stages from 2^31, stages that do
/// not fit. `split` asks for float32 in three products.
ADJOINT_API bool plan_weight(const ConvGeometry& geometry, Arithmetic arithmetic, const Machine& machine,
                             WeightPlan& plan);

/// The same for the wgmma kernels; for a tile with rows, only that tile.
ADJOINT_API std::int64_t wgmma_weight_smem_bytes(const WeightPlan& plan, bool split);
ADJOINT_API bool plan_wgmma_weight(const ConvGeometry& geometry, Arithmetic arithmetic, const Machine& machine,
                                   WeightPlan& plan, WeightTile only = {});

/// Bytes of a wgmma kernel's stage: the feature's part, a multiple of 1024, and the whole.
ADJOINT_HD inline std::int32_t wgmma_feature_bytes(const WeightPlan& p, bool split) {
  return p.tile_columns * (split ? 8 : 4 / p.unit_elements) << p.log2_positions();
}
ADJOINT_HD inline std::int32_t wgmma_stage_bytes(const WeightPlan& p, bool split) {
  const std::int32_t image =
      (p.boxes ? p.residues * p.box_elements() : p.block_channels * p.image_pitch) * (4 / p.unit_elements);
  return wgmma_feature_bytes(p, split) + ((image + 1023) & ~1023);
}

}  // namespace adjoint::cuda

// The schedule of the CUDA kernel for few output channels: source times filter, taps side by side, in one product of
// matrices, whose sums are then added up where they overlap (known as col2im).
//
// conv_transpose, and conv with stride 1 read backwards, spread every source position over the results around it:
//     sum[column][s] = sum over source channels c of source[c][s] * filter[c][column], column = (channel, tap),
//     result[channel][i] = sum over the taps that lead from some s to i of sum[(channel, tap)][s].
// A source value is read, and rounded, once for all taps, and no product is wasted.
//
// A tile is some rows of positions (line/plan.h's grid) of one plane. The copy engine brings it a row of the source at
// a time, in chunks of kCol2imChunk columns: [half][channel][32 columns], 128 bytes a line, whose 16-byte chunks are
// exchanged by the least three bits of the channel. A chunk's sums go to shared memory, [column][source column], with
// zeros beside them as far as taps reach. From there they are added to rows of results in progress, [row of
// positions][phase of the rows][channel][phase of the columns][position], a ring as long as the taps reach. Sums are
// added in the order of source rows, a row's in that of chunks, a chunk's in that of taps. The tiles determine the
// starts of chunks, and the geometry alone determines the tiles.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/line/plan.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kCol2imChunk = 64;       // source columns: wgmma's M
inline constexpr int kCol2imBox = 32;         // that one box holds
inline constexpr int kCol2imConsumers = 128;  // threads: a warpgroup
inline constexpr int kCol2imThreads = kCol2imConsumers + 32;
inline constexpr int kCol2imColumns[] = {32, 64, 96, 128};  // compiled: wgmma's N
inline constexpr int kCol2imDepths[] = {4, 8};              // compiled: a stage's channels, in eights
inline constexpr int kMaxCol2imStages = 4;
inline constexpr int kCol2imBarrierBytes = 1024;  // the data after it begins at a multiple of the swizzle's 1024
inline constexpr int kMaxCol2imTaps = 32;         // of an axis
inline constexpr std::int32_t kNoCol2imTap = -1;

struct Col2imPlan : LinePlan {
  std::int32_t kernel_h;
  std::int32_t parts;            // 2 if float32 is split into heads and tails
  std::int32_t columns;          // of the product, as compiled
  std::int32_t depths, stages;   // of a stage, and of a chunk
  std::int32_t source_stages;    // the number of stages in flight
  std::int32_t rows, row_tiles;  // of positions, of a tile; of a plane
  std::int32_t margin;           // zeros on either side of a column's sums; even, as pairs are stored
  std::int32_t sum_pitch;        // from a column's sums to the next's; 4 modulo 8, so that pairs hit each bank once
  std::int32_t ring_rows;        // of positions
  std::int32_t result_pitch;     // from a phase of the columns to the next
  std::int32_t blocks_per_sm;
  Divider row_tiles_divider, batch_divider, ring_divider;
  std::int32_t tap_offset_h[kMaxCol2imTaps];  // of each: the source's row from the position's
  std::int32_t tap_phase_h[kMaxCol2imTaps];
  /// For each phase of the columns, its taps: bytes from a position's place in the sums of a row's first tap to the
  /// tap's place, less the least offset. kNoCol2imTap after the last.
  std::int32_t tap_place[kLineMaxPhases][kMaxCol2imTaps];
  std::int32_t phase_taps;  // the most of a phase
  Divider reached_divider;  // by reached_positions()

  ADJOINT_HD std::int32_t used_columns() const { return channels * kernel_h * kernel_w; }
  /// Positions of a row to which a chunk's sums are added.
  ADJOINT_HD std::int32_t reached_positions() const { return kCol2imChunk + w.span(); }
  /// Channels of all stages: a multiple of a stage's.
  ADJOINT_HD std::int32_t padded_channels() const { return stages * depths * 8; }
  ADJOINT_HD std::int32_t stage_bytes() const { return depths * 8 * kCol2imChunk * 4; }
  /// [part][four channels][column][channel].
  ADJOINT_HD std::int32_t filter_vectors() const { return parts * (padded_channels() / 4) * columns; }
  /// Columns with a place for sums: the used ones, rounded up to eights, and at least half of the product's.
  ADJOINT_HD std::int32_t sum_columns() const {
    const std::int32_t eights = (used_columns() + 7) / 8 * 8;
    return eights > columns / 2 ? eights : columns / 2;
  }
  ADJOINT_HD std::int32_t sum_elements() const { return sum_columns() * sum_pitch; }
  ADJOINT_HD std::int32_t row_results() const { return channels * w.phases * result_pitch; }  // of one phase of rows
  ADJOINT_HD std::int32_t ring_elements() const { return (ring_rows * h.phases * row_results() + 3) / 4 * 4; }
  /// In 64 bits, because a plan that does not fit may exceed 32 bits.
  ADJOINT_HD std::int64_t smem_bytes() const {
    return kCol2imBarrierBytes + std::int64_t{source_stages} * stage_bytes() + std::int64_t{16} * filter_vectors() +
           4 * (sum_elements() + (std::int64_t{ring_rows} * h.phases * row_results() + 3) / 4 * 4);
  }
};

/// A tile: its first position and size, and the part of the source that it reads. Zero chunks if it reads no source.
struct Col2imTile {
  std::int32_t sample, row, column, rows, columns;
  std::int32_t first_row, end_row;    // of the source
  std::int32_t first_column, chunks;  // of the source; a multiple of four
};

ADJOINT_HD inline Col2imTile col2im_tile(const Col2imPlan& p, std::int32_t index) {
  Col2imTile t;
  std::int32_t above = p.row_tiles_divider.split(index);
  t.column = p.batch_divider.split(above) * p.tile_columns;
  t.sample = above;
  t.row = index * p.rows;
  const auto least = [](std::int32_t a, std::int32_t b) { return a < b ? a : b; };
  t.rows = least(p.rows, p.h.positions - t.row);
  t.columns = least(p.tile_columns, p.w.positions - t.column);
  const std::int32_t top = t.row + p.h.offset[0], left = t.column + p.w.offset[0];
  t.first_row = top > 0 ? top : 0;
  t.end_row = least(p.h.source, t.row + t.rows + p.h.offset[p.h.offsets - 1]);
  t.first_column = left > 0 ? left / 4 * 4 : 0;
  const std::int32_t end = least(p.w.source, t.column + t.columns + p.w.offset[p.w.offsets - 1]);
  t.chunks =
      t.end_row <= t.first_row || end <= t.first_column ? 0 : (end - t.first_column + kCol2imChunk - 1) / kCol2imChunk;
  return t;
}

/// The source channel for a unit of the filter's `four`-th four. A product's unit t < 4 is its channel 2 t, and unit t
/// + 4 the next channel, so that no two of a warp's reads of the source fall into one bank.
ADJOINT_HD inline std::int32_t col2im_filter_channel(std::int32_t four, std::int32_t unit) {
  return four / 2 * 8 + unit * 2 + four % 2;
}

/// Bytes from a stage's start to a channel's value at a column of the chunk.
ADJOINT_HD inline std::int32_t col2im_source_place(const Col2imPlan& p, std::int32_t channel, std::int32_t column) {
  const std::int32_t line = column / kCol2imBox * p.depths * 8 + channel, within = column % kCol2imBox;
  return line * 128 + (within / 4 ^ channel % 8) * 16 + within % 4 * 4;
}

/// A plan of conv, or of conv_transpose. False for half precision, for conv with a stride, for groups, for batch 0, for
/// more than kMaxCol2imTaps taps of an axis or taps that reach further than a chunk, for more results of a source
/// position than a product's columns, and for plans that do not fit into shared memory.
ADJOINT_API bool plan_col2im(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                             const Machine& machine, Col2imPlan& plan);

/// The source as the copy engine sees it: column, row, sample, channel, one group.
ADJOINT_API TensorMapLayout col2im_source_layout(const Col2imPlan& plan, const void* source);

/// The kernel's time if rows of the source begin at multiples of 16 bytes: clocks from start to end.
ADJOINT_API double col2im_clocks(const Col2imPlan& plan, const Machine& machine);

}  // namespace adjoint::cuda

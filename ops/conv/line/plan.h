// A convolution as one line of positions: the schedule that the kernels `narrow` and `packed` share. Plain C++ for host
// and device, tested without a GPU.
//
// conv with stride 1, and conv_transpose, are one sum over a grid of positions q,
//     result[m][q] = sum over source channels c and offsets o of source[c][q + o] * filter[c][o][m];
// m is one of a group's results at a position: (channel, phase of the rows, phase of the columns), where only
// conv_transpose has phases, as many as strides; its result position is q * stride + phase - shift.
//
// Positions are one line: source planes of a group's samples follow each other, each with the rows and columns that
// offsets reach beyond the grid, so that position n reads element n + offset without any decision. Positions past a
// row's or a plane's end compute results that are not stored.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kLineMaxOffsets = 32;  // of an axis
inline constexpr int kLineMaxPhases = 16;   // of an axis

struct LineAxis {
  std::int32_t result, source;  // extents
  std::int32_t phases, shift;
  std::int32_t positions, offsets;
  std::int32_t offset[kLineMaxOffsets];               // rising; of the source from the position
  std::int16_t tap[kLineMaxPhases][kLineMaxOffsets];  // -1: none

  ADJOINT_HD std::int32_t span() const { return offset[offsets - 1] - offset[0]; }
};

struct LinePlan {
  LineAxis h, w;
  std::int32_t groups, channels, source_channels;  // a group's
  std::int32_t kernel_w;
  std::int64_t filter_channel, filter_source;  // the filter's strides within a group
  std::int64_t batch, filter_group;            // filter_group: elements of a group's filter
  std::int32_t results, result_blocks;         // of a block; of a group's results
  std::int32_t tile_positions;                 // of a block
  std::int32_t column_tiles, tile_columns;     // tile_columns: positions; whole vectors if there are many tiles
  std::int32_t first_column;                   // of the source, from a tile's first position: a whole vector before it
  std::int32_t pitch, plane;                   // of a source plane in the line
  std::int32_t length;                         // elements of one channel that a tile reads
  std::int32_t vector;                         // elements in 16 bytes
  std::int32_t line_tiles;
  Divider plane_divider, pitch_divider, phase_divider;  // phase_divider: by w.phases

  ADJOINT_HD std::int32_t offsets() const { return h.offsets * w.offsets; }
  ADJOINT_HD std::int32_t group_results() const { return channels * h.phases * w.phases; }
  ADJOINT_HD std::int64_t blocks() const { return std::int64_t{line_tiles} * column_tiles * groups * result_blocks; }
  /// Distance in the line from a position to its source at an offset.
  ADJOINT_HD std::int32_t offset_place(std::int32_t offset_h, std::int32_t offset_w) const {
    return (h.offset[offset_h] - h.offset[0]) * pitch + w.offset[offset_w] - first_column;
  }
};

/// One of a group's results at a position.
struct LineResult {
  std::int32_t channel, phase_h, phase_w;
};

ADJOINT_HD inline LineResult line_result(const LinePlan& p, std::int32_t m) {
  const std::int32_t rows = m / p.w.phases;
  return {rows / p.h.phases, rows % p.h.phases, m % p.w.phases};
}

/// The part that a block computes: tile_positions positions from `first` on, `results` results from `first_result` on.
struct LineTile {
  std::int64_t group;
  std::int32_t first, column, first_result;  // column: of the grid, the first of the tile's
};

ADJOINT_HD inline LineTile line_tile(const LinePlan& p, std::int32_t index) {
  LineTile tile;
  tile.first_result = index % p.result_blocks * p.results;
  index /= p.result_blocks;
  tile.first = index % p.line_tiles * p.tile_positions;
  index /= p.line_tiles;
  tile.column = index % p.column_tiles * p.tile_columns;
  tile.group = index / p.column_tiles;
  return tile;
}

/// The place of an element of the line.
struct LinePlace {
  std::int32_t sample, row, column;
};

ADJOINT_HD inline LinePlace line_place(const LinePlan& p, std::int32_t n) {
  LinePlace place;
  place.sample = p.plane_divider.split(n);
  place.row = p.pitch_divider.split(n);
  place.column = n;
  return place;
}

/// Sets the axes, channels and filter of conv, or of conv_transpose. False for conv with a stride, for batch 0, and for
/// geometries with more offsets than an axis allows.
bool plan_line(const ConvGeometry& geometry, bool transposed, std::int64_t element_bytes, LinePlan& plan);

/// Replaces the columns' grid by one without a shift: the fewest positions possible, perhaps with one more offset.
/// plan_line() chooses the grid with the fewest products. False if an axis would have too many offsets.
bool unshift_columns(const ConvGeometry& geometry, LinePlan& plan);

/// Chooses the tiles for the given `results` and tile_positions. False if a tile would read more than `most_length`
/// elements of a channel, or there are too many positions.
bool place_line(std::int64_t most_length, LinePlan& plan);

/// The time of a plan whose blocks take `clocks` each: clocks from start to end.
double line_block_clocks(const LinePlan& plan, double clocks, const Machine& machine);

}  // namespace adjoint::cuda

// The schedule of the CUDA kernel for few results a position and several taps: results are the rows of wgmma's
// products, positions of the line its columns, and both operands are in shared memory.
//
// Source channels arrive unchanged, in groups of four units (a unit is 32 bits: one float, or two halves of adjacent
// channels), and are then packed as [element of the line][unit]: 16 bytes an element, so that an offset of the line is
// a constant added to a descriptor's address. Every value is loaded, and rounded, once for all offsets, where the
// correlation kernels read and round it once for each. Two groups make a stage, which is a product's K. A tile is some
// rows of one plane, or some whole planes. The copy engine brings it a group at a time, with zeros for positions
// outside.
//
// A product has 64 rows, and fewer results leave some free: so `stack` neighbouring offsets of a row of the kernel are
// rows side by side. Their sums are of different positions, and are added at the end:
//     sum[t][n] = sum over source channels c and products i of source[c][n + offset[stack * i]] * filter[c][stack * i +
//     t], result[n] = sum over t of sum[t][n + t * stack_step].
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/line/plan.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kPackedTeams = 2;   // that take turns with a block's tiles
inline constexpr int kPackedTeam = 128;  // threads that multiply a tile and store it: a warpgroup
inline constexpr int kPackers = 96;  // that pack the source; an additional warp starts the copies of it and the filter
inline constexpr int kPackedThreads = kPackedTeams * kPackedTeam + kPackers + 32;
inline constexpr int kPackedResults = 64;     // wgmma's M
inline constexpr int kPackedStages = 3;       // of packed source
inline constexpr int kPackedFilterSlots = 4;  // that the filter passes through, unless it stays
inline constexpr int kMostFilterSlots = 32;
inline constexpr int kMostRawStages = 3;
inline constexpr int kMostBox = 256;  // of the copy engine, along an axis
/// If float32 is split, the products of this many offsets are one sum on the tensor cores, which cut off its low bits.
inline constexpr int kPackedSplitProducts = 3;
inline constexpr int kPackedBarrierBytes = 1024;

/// wgmma's N: positions of a tile, and padding. Split float32 needs registers for sums of sums, too.
constexpr int packed_positions(bool split) { return split ? 128 : 256; }
/// Distance between results of a product that wait for their stores; 8 modulo 32, so that a fragment's pairs hit each
/// bank once.
constexpr int packed_pitch(bool split) { return packed_positions(split) + 8; }

struct PackedPlan : LinePlan {
  std::int32_t unit_channels;   // channels in a unit: 1, or 2 for half precision
  std::int32_t parts;           // 2 if float32 is split into heads and tails
  std::int32_t stack;           // offsets of a row in one product: w.offsets is a multiple
  std::int32_t stack_step;      // in the line, from one to the next
  bool paired;                  // two neighbouring positions' sums are added before they leave registers
  std::int32_t step_h, step_w;  // from a row of offsets to the next; from a product to the next
  std::int32_t slot_rows;       // rows of offsets whose filter fits one slot
  std::int32_t slot_columns;    // products of a row in one slot: all if slot_rows is more than 1
  std::int32_t filter_slots;    // if the filter stays: as many as a tile's products pass through
  bool filter_stays;            // in shared memory, for all of a block's tiles
  std::int32_t out_buffers;     // for results that wait for their stores: one, or one for each team
  std::int32_t rows, planes;    // of a tile: positions; planes: above 1 only if it has all rows
  std::int32_t row_tiles, sample_tiles;
  std::int32_t raw_stages;  // the number of the source's stages in flight
  Divider rows_divider;     // by the source's rows of a plane
  Divider row_tiles_divider, sample_tiles_divider, column_tiles_divider;

  /// The source's extents in a tile's plane.
  ADJOINT_HD std::int32_t source_rows() const { return rows + h.span(); }
  ADJOINT_HD std::int32_t stage_channels() const { return 8 * unit_channels; }
  ADJOINT_HD std::int32_t stages() const { return (source_channels + stage_channels() - 1) / stage_channels(); }
  /// A stage's source in memory's order, [channel][element of the line], and packed, [part][group][element of the
  /// line][unit].
  ADJOINT_HD std::int32_t raw_bytes() const { return 32 * length; }
  ADJOINT_HD std::int32_t stage_bytes() const { return parts * raw_bytes(); }
  /// For a stage.
  ADJOINT_HD std::int32_t row_products() const { return w.offsets / stack; }
  ADJOINT_HD std::int32_t products() const { return h.offsets * row_products(); }
  /// 16-byte vectors of the filter for a product: [part][group][result of a product][unit]. A slot holds several
  /// products.
  ADJOINT_HD std::int32_t product_vectors() const { return 2 * parts * kPackedResults; }
  ADJOINT_HD std::int32_t slot_vectors() const { return slot_rows * slot_columns * product_vectors(); }
  /// The filter's passage through the slots for one stage.
  ADJOINT_HD std::int32_t stage_slots() const {
    return (h.offsets + slot_rows - 1) / slot_rows * ((row_products() + slot_columns - 1) / slot_columns);
  }
  /// Products of the filter in the slots' order: [group of the convolution][stage][product].
  std::int64_t filter_products() const { return std::int64_t{products()} * stages() * groups; }
  std::int64_t workspace_bytes() const { return filter_products() * product_vectors() * 16; }
  /// A block's tables: barriers, and the values added to every result of a product, for each team.
  ADJOINT_HD std::int32_t table_bytes() const { return kPackedBarrierBytes + 4 * kPackedTeams * kPackedResults; }
  /// Positions that a team multiplies: the tile's, and padding to a whole product.
  ADJOINT_HD std::int32_t product_positions() const { return packed_positions(parts > 1); }
  /// Results that wait for their stores: [result of a product][position].
  ADJOINT_HD std::int32_t out_elements() const { return out_stack() * group_results() * packed_pitch(parts > 1); }
  ADJOINT_HD std::int32_t out_stack() const { return paired ? 1 : stack; }
  /// A product's row: a result for one of the stacked offsets. The two results of a pair are eight rows apart, in the
  /// same thread. The row is unused if `stacked` equals the stack or the result is group_results() or more.
  ADJOINT_HD std::int32_t row_stacked(std::int32_t row) const { return paired ? row / 8 % 2 : row / group_results(); }
  ADJOINT_HD std::int32_t row_result(std::int32_t row) const {
    return paired ? row / 16 * 8 + row % 8 : row % group_results();
  }
  /// Tables, the source packed and raw, the filter's slots, and results. A product's padding reads past the last stage,
  /// a group at a time; compute-sanitizer treats both groups as one span.
  ADJOINT_HD std::int32_t smem_bytes() const {
    const std::int32_t read = 32 * product_positions();
    const std::int32_t rest =
        raw_stages * raw_bytes() + filter_slots * 16 * slot_vectors() + 4 * out_buffers * out_elements();
    return table_bytes() + kPackedStages * stage_bytes() + (rest > read ? rest : read);
  }
};

/// A tile: its first positions.
struct PackedTile {
  std::int64_t group;
  std::int32_t sample, row, column;
};

ADJOINT_HD inline PackedTile packed_tile(const PackedPlan& p, std::int32_t index) {
  const std::int32_t above = p.row_tiles_divider.split(index), columns_and_group = p.sample_tiles_divider.divide(above);
  std::int32_t column = columns_and_group;
  PackedTile tile;
  tile.row = index * p.rows;
  tile.sample = (above - columns_and_group * p.sample_tiles) * p.planes;
  tile.group = p.column_tiles_divider.split(column);
  tile.column = column * p.tile_columns;
  return tile;
}

/// The place of the tile's element n of the line in the grid of positions, or beyond it.
ADJOINT_HD inline LinePlace packed_place(const PackedPlan& p, const PackedTile& tile, std::int32_t n) {
  std::int32_t row = p.pitch_divider.split(n);
  const std::int32_t plane = p.planes > 1 ? p.rows_divider.split(row) : 0;
  return {tile.sample + plane, tile.row + row, tile.column + n};
}

/// True if the element is a position of the tile, and not only read by one.
ADJOINT_HD inline bool is_position(const PackedPlan& p, const PackedTile& tile, const LinePlace& place) {
  return place.sample < p.batch && place.row < p.h.positions && place.row - tile.row < p.rows &&
         place.column - tile.column < p.tile_columns;
}

/// A plan of conv, or of conv_transpose. False for conv with a stride, for more results a position than a product has,
/// and for geometries with more offsets, or offsets further apart, than the kernel supports, or at uneven distances.
ADJOINT_API bool plan_packed(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic, PackedPlan& plan);

/// The source as the copy engine sees it: column, row, sample, channel of a group, group.
ADJOINT_API TensorMapLayout packed_source_layout(const PackedPlan& plan, const void* source, DType dtype);

/// The kernel's time if rows of the source begin at multiples of 16 bytes: clocks from start to end.
ADJOINT_API double packed_clocks(const PackedPlan& plan, const Machine& machine);

}  // namespace adjoint::cuda

// The schedule of the CUDA kernel for convolutions that are products of matrices: 1 x 1 taps, and layers with one
// position a sample, in half precision and TF32. wgmma reads halves from shared memory with either of an operand's axes
// contiguous, so both factors are copied unchanged, in blocks of 64 x 64 by the copy engine, and nothing is packed
// beforehand. For floats the contiguous axis must be the summed one. This holds for conv_weight's positions; samples as
// a factor, and filters, are transposed first if it does not hold. Planes are larger, and reach wgmma from registers,
// which threads read from blocks of 32 positions x 32 channels. Plain C++ for host and device, tested without a GPU.
//
// For each group of the convolution, result[row][column] = sum over depth of rows[row][depth] * columns[depth][column]:
//
//   conv, conv_transpose     rows: result channels   columns: positions of all samples   depth: source channels
//   where planes are one     rows: samples           columns: result channels            depth: source channels
//   conv_weight              rows: feature channels  columns: image channels             depth: positions, or samples
//
// For conv_weight with taps (taps.h), taps replace samples: each tap has its own columns, which are the same matrix
// read from another position.
//
// Axes of positions are cut into blocks sample by sample. A tile is two blocks of rows and two of columns, each of any
// sample, or, if there are few rows, one and four: a warpgroup's sums are two products of 64 x 128. If positions come
// from registers, a tile is 128 rows and eight blocks of columns, one for each warp of both warpgroups, or four blocks,
// each shared by two warps, and then a warpgroup's sums are one product. If there are few tiles and the depth is large,
// the depth is cut into slices, whose sums in float32 another kernel adds up; the geometry alone determines their
// number, and so the bits.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kProductTeams = 2;   // that take turns with a block's tiles
inline constexpr int kProductTeam = 128;  // threads that multiply a tile and store it: a warpgroup
inline constexpr int kProductThreads =
    kProductTeams * kProductTeam + 128;   // the last warpgroup starts the copies of factors
inline constexpr int kProductBlock = 64;  // of an axis, except that a contiguous one has 128 bytes
inline constexpr int kProductLineBytes = 128;
inline constexpr int kProductBlockBytes = kProductBlock * kProductLineBytes;
inline constexpr int kRegisterBlock = 32;  // of positions that come from registers, and of channels with them
inline constexpr int kProductColumns = 2 * kProductBlock;        // of one of a tile's two products
inline constexpr int kMostProductSlots = 8;                      // of a factor's ring
inline constexpr int kProductBiases = 4 * kProductBlock;         // of a tile's rows, or columns, at most
inline constexpr int kProductTableBytes = 3072;                  // barriers, and each team's biases
inline constexpr int kProductOutBytes = 4 * kProductBlockBytes;  // results that wait for their stores
inline constexpr int kMostProductTaps = 64;

/// One of the three matrices in memory: `lines` of `width` contiguous elements, `pitch` apart. The copy engine requires
/// pitches of whole 16 bytes; a factor with another pitch (a tensor's lines follow each other) is copied first.
struct ProductMatrix {
  std::int64_t lines, width, pitch;
  /// By the contiguous axis, the other, group, sample.
  std::int64_t extents[4], strides[4];
  /// If it is transposed: distances from one of the tensor's lines to the next, and from a group to the next; else 0.
  std::int64_t source_line = 0, source_group = 0;
};

/// The offset that a block of columns adds to the place of its stage: along the depth, samples and groups.
struct ProductShift {
  std::int32_t depth, sample, group;
};

/// A tap's shift.
struct ProductTap {
  std::int32_t depth;
  std::int16_t sample, group;

  ADJOINT_HD ProductShift shift() const { return {depth, sample, group}; }
};

struct ProductPlan {
  ProductMatrix rows, columns, result;
  std::int32_t element_bytes, depth_block;  // of both factors and the result; elements of a block along the depth
  bool rows_by_depth, columns_by_depth;     // the depth is the contiguous axis
  bool rows_are_samples;                    // the bias then belongs to columns, not rows
  bool columns_from_registers;              // positions of floats
  std::int32_t column_block;                // elements of a block, which has as many lines
  std::int32_t tile_row_blocks, tile_column_blocks;
  std::int32_t groups, row_blocks, row_tiles, slices;
  std::int32_t column_blocks, depth_blocks;  // of a sample
  std::int32_t all_column_blocks, stages;    // of all samples; a stage is a block of the depth
  std::int32_t slice_stages;                 // at most
  std::int32_t row_slots, column_slots;      // of the factors' rings
  bool rows_stay;                            // in shared memory, for all of a block's tiles
  std::int32_t out_buffers;                  // for results that wait for their stores: one for each team, or fewer
  std::int64_t partial_row, partial_group, partial_slice, partial_sample;  // strides of the slices' sums
  Divider units_divider, slices_divider, row_tiles_divider;
  Divider column_blocks_divider, depth_blocks_divider;
  std::int32_t taps;  // 0, or the number of taps that replace samples in columns
  ProductTap tap_list[kMostProductTaps];

  /// Tiles that share their columns, and follow each other.
  ADJOINT_HD std::int32_t units() const { return groups * row_tiles * slices; }
  ADJOINT_HD std::int32_t column_tiles() const {
    return (all_column_blocks + tile_column_blocks - 1) / tile_column_blocks;
  }
  ADJOINT_HD std::int32_t tiles() const { return units() * column_tiles(); }
  /// Bytes of a factor's slot: a tile's share of a stage.
  ADJOINT_HD std::int32_t row_slot_bytes() const { return tile_row_blocks * kProductBlockBytes; }
  ADJOINT_HD std::int32_t column_block_bytes() const { return column_block * kProductLineBytes; }
  ADJOINT_HD std::int32_t column_slot_bytes() const { return tile_column_blocks * column_block_bytes(); }
  ADJOINT_HD std::int32_t smem_bytes() const {
    return kProductTableBytes + row_slots * row_slot_bytes() + column_slots * column_slot_bytes() +
           out_buffers * kProductOutBytes;
  }
  /// Blocks of rows, or of columns, before a tile's second product.
  ADJOINT_HD std::int32_t second_row_block() const { return tile_row_blocks - 1; }
  ADJOINT_HD std::int32_t second_column_block() const { return tile_column_blocks - 2; }
  std::int64_t partial_bytes() const { return slices > 1 ? 4 * slices * result.lines * result.width : 0; }
};

/// A tile: its first row, column block and stage, and its number of stages.
struct ProductTile {
  std::int32_t group, slice, row, column_block, stage, stages;
  std::int32_t row_blocks, column_blocks;  // those that are not empty
};

ADJOINT_HD inline ProductTile product_tile(const ProductPlan& p, std::int32_t index) {
  ProductTile tile;
  tile.column_block = p.tile_column_blocks * p.units_divider.split(index);
  tile.slice = index;
  std::int32_t row_tile = p.slices_divider.split(tile.slice);
  tile.group = p.row_tiles_divider.split(row_tile);
  tile.row = row_tile * p.tile_row_blocks * kProductBlock;
  tile.stage = tile.slice * p.slice_stages;
  const std::int32_t left = p.stages - tile.stage;
  tile.stages = left < p.slice_stages ? left : p.slice_stages;
  const std::int32_t rows = p.row_blocks - row_tile * p.tile_row_blocks,
                     columns = p.all_column_blocks - tile.column_block;
  tile.row_blocks = rows < p.tile_row_blocks ? rows : p.tile_row_blocks;
  tile.column_blocks = columns < p.tile_column_blocks ? columns : p.tile_column_blocks;
  return tile;
}

/// A block of an axis: its sample, and its start there.
struct ProductPlace {
  std::int32_t sample, first;
};

ADJOINT_HD inline ProductPlace product_place(const Divider& blocks_of_sample, std::int32_t block, std::int32_t length) {
  const std::int32_t sample = blocks_of_sample.split(block);
  return {sample, block * length};
}

/// An operator of the trio, named as in ConvRole.
enum class ProductOf { kFeature, kImage, kFilter };

/// For halves, or floats that are rounded to tf32. False if the geometry is not pointwise, something is empty, or
/// extents exceed 31 bits.
ADJOINT_API bool plan_product(const ConvGeometry& geometry, ProductOf of, Arithmetic arithmetic, const Machine& machine,
                              ProductPlan& plan);

/// The sizes of a product's matrices. Positions of a sample are one axis.
struct ProductExtents {
  std::int64_t groups, rows, column_samples, columns, depth_samples, depth;
};

/// Cuts `plan`, whose matrices are set, into tiles and slices; false if something exceeds 31 bits.
bool cut_product(const ProductExtents& extents, const Machine& machine, ProductPlan& plan);

/// The time of the plan's kernels, in clocks of a multiprocessor: for each stage its products or the L2's delivery of
/// it, whichever takes longer, and then the sums of slices.
double product_clocks(const ProductPlan& plan, const Machine& machine);

/// The matrix as the copy engine sees it, in blocks of `lines`.
ADJOINT_API TensorMapLayout product_layout(const ProductMatrix& matrix, const void* data, DType dtype,
                                           std::int32_t lines = kProductBlock);

/// True if the copy engine can read the matrix at `data`, whose lines follow each other.
ADJOINT_API bool product_is_aligned(const ProductMatrix& matrix, std::int64_t element_bytes, const void* data);

/// Bytes of the copies of factors whose lines the copy engine cannot read.
ADJOINT_API std::int64_t product_copy_bytes(const ProductPlan& plan);

}  // namespace adjoint::cuda

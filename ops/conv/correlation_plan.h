// The schedule of the tensor-core kernels for conv and conv_transpose: plain C++ for host and device, tested without a
// GPU.
//
// Both operators are one stride-1 correlation over a grid of positions q,
//     out[column][q] = sum over steps s, input channels c of x[plane(s)][c][q + offset(s)] * filter[s][c][column].
//   conv_transpose: one plane (the feature); a column is (phase, image channel), because the image position
//     i = q * stride + phase - padding takes only the taps with (phase - k * dilation) divisible by stride, and each of
//     them reads the feature at q - (k * dilation - phase) / stride. Rows of phases form classes with lists of their
//     own.
//   conv: q is the feature position; the image is split into planes by its position mod stride, so that every tap reads
//     one plane at unit stride; a column is a feature channel. There is one class.
//
// A block computes tiles of kPositions x kColumns outputs. The input is staged kChunkUnits units at a time as raw rows,
// [unit][plane][image of the tile][row][column]; a unit is 32 bits: one float, or two halves of adjacent channels. Any
// step is one constant offset into a stage. A class's steps are cut into passes, whose stages hold only what their
// steps read, until a stage fits shared memory. Filter blocks are packed in the order in which a tile's walk consumes
// them.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kChunkUnits = 16;
inline constexpr int kMaxSteps = 512;
inline constexpr int kMaxPasses = 128;
inline constexpr int kMaxClasses = 16;

/// The tile shapes that are compiled. One block a multiprocessor serves problems bound by matrix work; two with a
/// consumer each overlap one's stores with the other's products.
struct CorrelationTile {
  int columns;        // wgmma's N: 16, 32, 64 or 128
  int m_tiles;        // rows of 64 positions of a consumer warpgroup
  int consumers;      // warpgroups that multiply
  int blocks_per_sm;  // resident at once
  constexpr int positions() const { return 64 * m_tiles * consumers; }
};
inline constexpr CorrelationTile kCorrelationTiles[] = {{128, 2, 2, 1}, {64, 4, 1, 2}, {32, 4, 1, 2}, {16, 4, 1, 2}};
/// With the sums doubled: three products, promoted step by step to ordinary registers.
inline constexpr CorrelationTile kSplitCorrelationTiles[] = {{128, 1, 2, 1},
                                                             {64, 2, 1, 2},
                                                             {32, 2, 1, 2},
                                                             {16, 2, 1, 2}};

struct CorrelationStep {
  std::int32_t x_offset;  // 32-bit units from a position's place in the stage
  std::int32_t h, w;      // conv: the tap; conv_transpose: the offset d of q - d
};

struct CorrelationPass {
  std::int32_t first_step, steps;
  std::int32_t h_base, w_base;       // the stage's first row and column, relative to the tile's first position
  std::int32_t h_residue;            // conv: the image row is (q + h) * stride + h_residue
  std::int32_t first_plane, planes;  // conv: residues of the image column
};

struct CorrelationClass {
  std::int32_t first_pass, passes;
  std::int32_t steps, first_step;
};

struct CorrelationPlan {
  std::int32_t transposed;
  std::int32_t groups;
  std::int64_t batch;
  std::int32_t unit_channels;           // channels in a unit: 1, or 2 for half precision
  std::int32_t k_channels, n_channels;  // summed and produced, a group
  std::int32_t chunks;                  // of kChunkUnits units
  std::int32_t in_h, in_w, out_h, out_w;
  std::int32_t in_stride_h, in_stride_w;    // conv: stride; conv_transpose: 1
  std::int32_t out_stride_h, out_stride_w;  // out = q * out_stride + phase - out_offset
  std::int32_t out_offset_h, out_offset_w;
  std::int32_t kernel_h, kernel_w, dilation_h, dilation_w;
  std::int32_t q_h, q_w;                  // positions
  std::int32_t log2_tile_h, log2_tile_w;  // the tile: images of the batch x rows x columns, innermost last
  std::int32_t log2_tile_n;
  std::int32_t tiles_h, tiles_w, column_tiles;  // column_tiles: all classes together, a group
  std::int64_t tiles_n;
  std::int32_t tiles_per_class, phases_per_class, class_columns;
  std::int32_t rows, cols;    // of a plane of a stage, for one image of the tile
  std::int32_t stage_planes;  // the most that a pass loads
  std::int32_t unit_pitch;    // units from one channel of a stage to the next
  std::int32_t tile_columns, m_tiles, consumers, blocks_per_sm;
  std::int32_t classes;
  std::int32_t x_stages, w_slots, weights_resident;
  std::int32_t w_block_units;     // 32-bit units of a filter block
  std::int64_t blocks_per_group;  // filter blocks
  CorrelationClass class_list[kMaxClasses];
  CorrelationPass passes[kMaxPasses];
  CorrelationStep steps[kMaxSteps];

  ADJOINT_HD std::int64_t tiles() const { return tiles_n * tiles_h * tiles_w * groups * column_tiles; }
};

/// One unit of a block's walk: where its positions and columns begin.
struct CorrelationWork {
  std::int64_t n;     // first image
  std::int32_t h, w;  // first position
  std::int32_t group, class_index, first_column;
  std::int64_t first_block;  // of its filter blocks
};

ADJOINT_HD inline CorrelationWork correlation_work(const CorrelationPlan& p, std::int64_t tile) {
  CorrelationWork work;
  const std::int32_t column_tile = static_cast<std::int32_t>(tile % p.column_tiles);
  tile /= p.column_tiles;
  work.group = static_cast<std::int32_t>(tile % p.groups);
  tile /= p.groups;
  work.w = static_cast<std::int32_t>(tile % p.tiles_w) << p.log2_tile_w;
  tile /= p.tiles_w;
  work.h = static_cast<std::int32_t>(tile % p.tiles_h) << p.log2_tile_h;
  work.n = (tile / p.tiles_h) << p.log2_tile_n;
  work.class_index = column_tile / p.tiles_per_class;
  const std::int32_t tile_in_class = column_tile % p.tiles_per_class;
  work.first_column = tile_in_class * p.tile_columns;
  const CorrelationClass& c = p.class_list[work.class_index];
  work.first_block = work.group * p.blocks_per_group +
                     (static_cast<std::int64_t>(c.first_step) * p.tiles_per_class + tile_in_class * c.steps) * p.chunks;
  return work;
}

/// Position m of a tile, in [0, positions): its image, row and column relative to the tile's first.
struct CorrelationPosition {
  std::int32_t n, h, w;
};

ADJOINT_HD inline CorrelationPosition correlation_position(const CorrelationPlan& p, std::int32_t m) {
  return {m >> (p.log2_tile_h + p.log2_tile_w), (m >> p.log2_tile_w) & ((1 << p.log2_tile_h) - 1),
          m & ((1 << p.log2_tile_w) - 1)};
}

/// Units from a stage's unit to position m's value at x_offset 0.
ADJOINT_HD inline std::int32_t correlation_stage_offset(const CorrelationPlan& p, std::int32_t m) {
  const CorrelationPosition q = correlation_position(p, m);
  return (q.n * p.rows + q.h) * p.cols + q.w;
}

/// Columns that a consumer warp stages at once on its way out.
constexpr int correlation_staged_columns(int tile_columns) { return tile_columns == 128 ? 32 : 16; }

/// What column `column` of a class is: an output channel of the group, and the phase of the output position.
struct CorrelationColumn {
  std::int32_t channel, phase_h, phase_w;
  bool valid;
};

ADJOINT_HD inline CorrelationColumn correlation_column(const CorrelationPlan& p, std::int32_t class_index,
                                                       std::int32_t column) {
  CorrelationColumn result;
  result.phase_w = column % p.out_stride_w;
  column /= p.out_stride_w;
  result.channel = column % p.n_channels;
  result.phase_h = class_index * p.phases_per_class + column / p.n_channels;
  result.valid = column < p.n_channels * p.phases_per_class && result.phase_h < p.out_stride_h;
  return result;
}

/// The tap along one axis that a step and a phase have in common, or -1.
ADJOINT_HD inline std::int32_t correlation_tap(std::int32_t offset, std::int32_t phase, std::int32_t stride,
                                               std::int32_t dilation, std::int32_t kernel) {
  const std::int32_t distance = offset * stride + phase;
  if (distance < 0 || distance % dilation != 0 || distance / dilation >= kernel) return -1;
  return distance / dilation;
}

/// The filter's tap (kh * kernel_w + kw) of a step and a column, or -1 for none.
ADJOINT_HD inline std::int32_t correlation_filter_tap(const CorrelationPlan& p, const CorrelationStep& step,
                                                      const CorrelationColumn& column) {
  if (!column.valid) return -1;
  if (!p.transposed) return step.h * p.kernel_w + step.w;
  const std::int32_t kh = correlation_tap(step.h, column.phase_h, p.out_stride_h, p.dilation_h, p.kernel_h);
  const std::int32_t kw = correlation_tap(step.w, column.phase_w, p.out_stride_w, p.dilation_w, p.kernel_w);
  return kh < 0 || kw < 0 ? -1 : kh * p.kernel_w + kw;
}

/// The step and chunk of a tile's filter block `block` (counted from the tile's first).
struct CorrelationBlock {
  std::int32_t step, chunk;
};

ADJOINT_HD inline CorrelationBlock correlation_block(const CorrelationPlan& p, std::int32_t class_index,
                                                     std::int32_t block) {
  const CorrelationClass& c = p.class_list[class_index];
  for (std::int32_t i = c.first_pass; i < c.first_pass + c.passes; ++i) {
    const std::int32_t blocks = p.passes[i].steps * p.chunks;
    if (block < blocks) return {p.passes[i].first_step + block % p.passes[i].steps, block / p.passes[i].steps};
    block -= blocks;
  }
  return {-1, -1};
}

struct CorrelationLimits {
  std::int64_t smem_bytes_per_sm = 233472;  // sm_90; 1024 of a block's share are the system's
};

/// Bytes of dynamic shared memory that a block of the plan uses.
ADJOINT_API std::int64_t correlation_smem_bytes(const CorrelationPlan& plan);

/// False where the kernels do not take the geometry: extents from 2^28 on, more steps, passes or classes than fit.
/// `split` asks for float32 in three products.
ADJOINT_API bool plan_correlation(const ConvGeometry& geometry, bool transposed, int unit_channels, bool split,
                                  const CorrelationLimits& limits, CorrelationPlan& plan);

}  // namespace adjoint::cuda

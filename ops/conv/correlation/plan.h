// The schedule of the tensor-core kernels for conv and conv_transpose: plain C++ for host and device, tested without a
// GPU.
//
// Both operators are one stride-1 correlation over a grid of positions q,
//     out[column][q] = sum over steps s, input channels c of x[plane(s)][c][q + offset(s)] * filter[s][c][column].
//   conv_transpose: one plane (the feature); a column is (phase, image channel), because the image position
//     q * stride + phase needs only the taps with (phase + padding - k * dilation) divisible by stride, and each of
//     them reads the feature at q + (phase + padding - k * dilation) / stride. Rows of phases form classes with
//     separate lists. If the stride along a row is even, the lower half of a tile's columns holds the lower half of the
//     phases, and the upper half the upper; a step that only one half needs multiplies half of the columns.
//   conv: q is the feature position; the image is split into planes by its position mod stride, so that every tap reads
//     one plane at unit stride; a column is a feature channel. There is one class.
//
// A block computes tiles of kPositions x kColumns outputs. The input is staged kChunkUnits units at a time as raw rows,
// [unit][plane][image of the tile][row][column]; a unit is 32 bits: one float, or two halves of adjacent channels. Each
// step is one constant offset into a stage. A class's steps are cut into passes, each with stages that hold only what
// its steps read, until a stage fits shared memory. Filter blocks are packed in the order in which a tile's walk
// consumes them; their position is counted in halves, of kChunkUnits units x half of a tile's columns. The blocks of a
// cluster walk tiles of the same columns; each copies a part of every filter block to all of them.
//
// If a group has few channels, steps gather: the kChunkUnits units of K in a step may belong to any taps and channels,
// each with its own offset into the stage.
//
// A boxed plan's stages are boxes of the input, which the copy engine may copy unchanged: [box of some
// positions][unit][image][row][column]; conv's stride does not split rows: neighbouring positions are that many columns
// apart. Units of such a plan may be pairs of columns of half precision (paired_columns.h); all its extents along a row
// are then counted in pairs.
//
// A blocked plan reads a copy of the input in channel blocks of four units (channel_blocks.h), which another kernel
// makes beforehand. A stage is a box of the copy for every 64 positions of the tile: [block][image][row][column][unit];
// here, too, a step is a constant offset.
//
// A flat plan is a blocked one whose copy has all images' positions in one line: its tiles are runs of that line, for
// all extents of a plane, and only the last tile may be partly empty. Positions on zeros have no result.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/rows_aligned.h>
#include <adjoint/ops/conv/correlation/paired_columns.h>
#include <adjoint/ops/conv/correlation/parts.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/channel_blocks.h>

#include <cstdint>

namespace adjoint::cuda {

/// Its parts use short numbers, because every byte of a launch's parameters costs time.
struct CorrelationPlan {
  std::int32_t transposed;
  std::int32_t groups;
  std::int64_t batch;
  std::int32_t unit_channels;           // channels in a unit: 1, or 2 for half precision
  std::int32_t unit_columns;            // columns: 1, or 2 for half precision if a unit has one channel
  std::int32_t k_channels, n_channels;  // summed and produced, a group
  std::int32_t slices;         // groups of the plan that are one of the filter's, each with a slice of its sums
  std::int32_t chunks;         // of kChunkUnits units
  std::int32_t gathers;        // steps gather
  std::int32_t stage_units;    // units of a position: kChunkUnits, or all channels' if steps gather
  std::int32_t blocked;        // stages are boxes of a copy in channel blocks
  std::int32_t boxed;          // stages are boxes of the input
  std::int32_t log2_box;       // log2 of a stage's positions, or of one of its boxes', halos aside
  std::int32_t boxes;          // of a stage
  std::int32_t box_blocks;     // blocks of a box: those of kChunkUnits units, and their tails if float32 is split
  std::int32_t box_positions;  // halos and all
  std::int32_t box_vectors;    // of 16 bytes, from a box of a stage to the next
  std::int32_t in_h, in_w, out_h, out_w;
  std::int32_t in_stride_h, in_stride_w;    // conv: stride; conv_transpose: 1
  std::int32_t out_stride_h, out_stride_w;  // out = q * out_stride + phase
  std::int32_t kernel_h, kernel_w, padding_h, padding_w, dilation_h, dilation_w;
  std::int32_t filter_w;                  // the filter's taps along a row: kernel_w, unless units are pairs of columns
  PairTaps pair_taps;                     // where they are
  std::int32_t q_h, q_w;                  // positions
  std::int32_t flat_h, flat_w;            // of a flat plan: rows of an image, columns of a row; else 0
  std::int32_t log2_tile_h, log2_tile_w;  // the tile: images of the batch x rows x columns, innermost last
  std::int32_t log2_tile_n;
  std::int32_t tiles_h, tiles_w, column_tiles;  // column_tiles: all classes together, a group
  std::int64_t tiles_n;
  std::int32_t tiles_per_class, phases_per_class, class_columns;
  std::int32_t takes_halves;
  std::int32_t pairs_halves;    // steps of half of the columns come in pairs of a lower and an upper one
  std::int32_t segments;        // segments of a tile's columns: 2 if each half of the phases has one half, else 1
  std::int32_t rows, cols;      // of a plane of a stage or of one of its boxes, for one image
  std::int32_t stage_planes;    // the most that a pass loads
  std::int32_t copy_elements;   // elements that one copy may move from a row of the input aligned to them
  std::int32_t stage_stride_w;  // columns of a stage from a position to the next
  std::int32_t unit_pitch;      // units from one channel of a stage to the next
  std::int32_t box_units;       // units from a boxed stage's box to the next
  std::int32_t stage_size;      // units of a stage
  std::int32_t tile_columns, m_tiles, consumers, blocks_per_sm;
  std::int32_t classes;
  std::int32_t x_stages, w_slots, weights_resident;
  std::int32_t w_block_units;     // 32-bit units of a whole filter block
  std::int64_t halves_per_group;  // of filter blocks
  std::int32_t cluster;           // blocks that share their filter blocks: of neighbouring positions, the same columns
  Divider cluster_divider, column_tile_divider, group_divider, tile_w_divider, tile_h_divider;
  Divider class_divider, phase_divider, channel_divider;  // by tiles_per_class, a segment's phases, n_channels
  Divider row_divider, col_divider;                       // by rows, cols
  Divider flat_h_divider, flat_w_divider;
  CorrelationPacking packing;
  CorrelationClass class_list[kMaxClasses];
  CorrelationPass passes[kMaxPasses];
  CorrelationStep steps[kMaxSteps];
  CorrelationTap taps[kMaxSteps];  // the tap of each step; if steps gather, the taps that their units name

  ADJOINT_HD std::int64_t position_tiles() const { return tiles_n * tiles_h * tiles_w; }
  /// A multiple of the cluster: the last few may exceed the batch.
  ADJOINT_HD std::int64_t tiles() const {
    return (position_tiles() + cluster - 1) / cluster * cluster * groups * column_tiles;
  }
  /// Bytes of an element of the input.
  ADJOINT_HD std::int32_t element_bytes() const { return 4 / (unit_channels * unit_columns); }
  /// True if some steps use half of a tile's columns.
  ADJOINT_HD bool halves() const {
    for (std::int32_t i = 0; i < classes; ++i) {
      if (class_list[i].halves != 2 * class_list[i].steps) return true;
    }
    return false;
  }
  /// True if a warp's positions are in one row of the tile and are neighbours in a stage.
  ADJOINT_HD bool one_row() const { return stage_stride_w == 1 && 1 << log2_tile_w >= 16 * m_tiles; }
  /// log2 of the images, rows and columns of the tile that a stage, or a box of it, holds, halos aside.
  ADJOINT_HD std::int32_t log2_stage_w() const { return log2_box < log2_tile_w ? log2_box : log2_tile_w; }
  ADJOINT_HD std::int32_t log2_stage_h() const {
    const std::int32_t left = log2_box - log2_stage_w();
    return left < log2_tile_h ? left : log2_tile_h;
  }
  ADJOINT_HD std::int32_t log2_stage_n() const { return log2_box - log2_stage_w() - log2_stage_h(); }
  /// For a blocked plan: positions of a box from eight of its 64 to the next eight; 0 if these distances differ.
  ADJOINT_HD std::int32_t box_step() const {
    const std::int32_t w = log2_stage_w(), h = log2_stage_h();
    if (w == 6 || (rows == 1 << h && cols == 1 << w)) return 8;
    return w == 3 && (h == 3 || rows == 1 << h) ? cols : 0;
  }
  ADJOINT_HD bool flat() const { return flat_w > 0; }
  /// The size of a blocked plan's input.
  ADJOINT_HD ChannelBlocks copy() const {
    return {batch, groups, k_channels, chunks, box_blocks, in_h, in_w, in_stride_h, in_stride_w, flat_h, flat_w};
  }
  /// 32-bit units of all filter blocks.
  ADJOINT_HD std::int64_t filter_units() const { return halves_per_group * groups * (w_block_units / 2); }
};

/// The start of the filter blocks of a tile of columns, in halves.
ADJOINT_HD inline std::int64_t correlation_first_half(const CorrelationPlan& p, std::int32_t group,
                                                      const CorrelationClass& c, std::int32_t tile_in_class) {
  return group * p.halves_per_group +
         (static_cast<std::int64_t>(c.first_half) * p.tiles_per_class + tile_in_class * c.halves) * p.chunks;
}

/// One unit of a block's work: its first positions and columns.
struct CorrelationWork {
  std::int64_t n;     // first image
  std::int32_t h, w;  // first position
  std::int32_t group, class_index, tile_in_class;
  std::int64_t first_half;  // of its filter blocks
};

ADJOINT_HD inline CorrelationWork correlation_work(const CorrelationPlan& p, std::int64_t tile) {
  CorrelationWork work;
  auto rank = static_cast<std::int32_t>(tile);
  std::int32_t column_tile = p.cluster_divider.split(rank);
  work.group = p.column_tile_divider.split(column_tile);
  const std::int32_t clusters = p.group_divider.split(work.group);
  std::int32_t w = clusters * p.cluster + rank, h = p.tile_w_divider.split(w);
  const std::int32_t n = p.tile_h_divider.split(h);
  work.n = static_cast<std::int64_t>(n) << p.log2_tile_n;
  work.h = h << p.log2_tile_h;
  work.w = w << p.log2_tile_w;
  work.tile_in_class = column_tile;
  work.class_index = p.class_divider.split(work.tile_in_class);
  const CorrelationClass& c = p.class_list[work.class_index];
  work.first_half = correlation_first_half(p, work.group, c, work.tile_in_class);
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

/// The same for plans that may be flat, whose tiles have no rows and images: positions beyond the batch or the output
/// have no result. kBlocked: true if the plan is blocked; kernels for other plans pass false, so that the compiler
/// keeps their sums in registers.
template <bool kBlocked = true>
ADJOINT_HD inline CorrelationPosition correlation_position(const CorrelationPlan& p, const CorrelationWork& work,
                                                           std::int32_t m) {
  if constexpr (kBlocked) {
    if (p.flat()) {
      std::int32_t w = work.w + m, h = p.flat_w_divider.split(w), n = p.flat_h_divider.split(h);
      if (work.n > 0) n += static_cast<std::int32_t>(p.batch);  // a cluster's tile behind the line's end
      return {n, h, w - work.w};
    }
  }
  return correlation_position(p, m);
}

/// Units from a stage's unit to position m's value at x_offset 0.
ADJOINT_HD inline std::int32_t correlation_stage_offset(const CorrelationPlan& p, std::int32_t m) {
  const CorrelationPosition q = correlation_position(p, m & ((1 << p.log2_box) - 1));
  return (m >> p.log2_box) * p.box_units + (q.n * p.rows + q.h) * p.cols + q.w * p.stage_stride_w;
}

/// Columns that a consumer warp stages together for its stores: as many of a tile's lower half as of its upper half. A
/// blocked plan's warps stage them for 16 positions at a time, for any m-tiles.
ADJOINT_HD constexpr int correlation_staged_columns(int tile_columns, bool blocked) {
  return blocked || tile_columns == 256 ? 64 : tile_columns < 128 ? 16 : 32;
}
ADJOINT_HD constexpr int correlation_staged_positions(int m_tiles, bool blocked) { return blocked ? 16 : 16 * m_tiles; }

/// log2 of the phases that staged columns hold as neighbouring pixels; -1 if they hold no phases.
ADJOINT_HD constexpr int correlation_log2_interleave(int out_stride_w) {
  for (int log2 = 0; log2 <= 4; ++log2) {
    if (out_stride_w == 1 << log2) return log2;
  }
  return -1;
}

/// A column of a tile: an output channel of the group, and the phase of the output position.
struct CorrelationColumn {
  std::int32_t channel, phase_h, phase_w;
  bool valid;
};

ADJOINT_HD inline CorrelationColumn correlation_column(const CorrelationPlan& p, const CorrelationWork& work,
                                                       std::int32_t column) {
  const std::int32_t log2_segments = p.segments - 1;
  const std::int32_t segment_columns = p.tile_columns >> log2_segments;
  const std::int32_t segment = column >= segment_columns;
  CorrelationColumn result;
  result.phase_w = work.tile_in_class * segment_columns + column - segment * segment_columns;
  result.channel = p.phase_divider.split(result.phase_w);
  result.phase_w += segment * (p.out_stride_w >> log2_segments);
  const std::int32_t index = p.channel_divider.split(result.channel);
  result.phase_h = work.class_index * p.phases_per_class + index;
  result.valid = index < p.phases_per_class && result.phase_h < p.out_stride_h;
  return result;
}

/// The tap along one axis by which a phase reads the feature at `offset`, or -1.
ADJOINT_HD inline std::int32_t correlation_tap(std::int32_t offset, std::int32_t phase, std::int32_t stride,
                                               std::int32_t padding, std::int32_t dilation, std::int32_t kernel) {
  const std::int32_t distance = phase + padding - offset * stride;
  if (dilation == 1) return distance >= 0 && distance < kernel ? distance : -1;  // divisions are slow on a GPU
  if (distance < 0 || distance % dilation != 0 || distance / dilation >= kernel) return -1;
  return distance / dilation;
}

/// The filter's tap (kh * filter_w + kw) for a tap's place and a column; -1: no tap. For a pair of columns, that of
/// `half`.
ADJOINT_HD inline std::int32_t correlation_filter_tap(const CorrelationPlan& p, const CorrelationTap& tap,
                                                      const CorrelationColumn& column, std::int32_t half = 0) {
  if (!column.valid) return -1;
  std::int32_t kh = tap.h, kw = tap.w;
  if (p.transposed) {
    kh = correlation_tap(tap.h, column.phase_h, p.out_stride_h, p.padding_h, p.dilation_h, p.kernel_h);
    kw = correlation_tap(tap.w, column.phase_w, p.out_stride_w, p.padding_w, p.dilation_w, p.kernel_w);
    if (kh < 0 || kw < 0) return -1;
  }
  if (p.unit_columns == 2) {
    kw = kw * p.pair_taps.scale + p.pair_taps.first + half * p.pair_taps.step;
    if (kw < 0 || kw % p.pair_taps.dilation != 0) return -1;
    kw /= p.pair_taps.dilation;
    if (kw >= p.filter_w) return -1;
  }
  return kh * p.filter_w + kw;
}

/// The tile's first column of a step's filter block, and how many it holds.
struct CorrelationColumns {
  std::int32_t first, count;
};

ADJOINT_HD inline CorrelationColumns correlation_columns(const CorrelationPlan& p, const CorrelationStep& step) {
  const std::int32_t half = p.tile_columns / 2;
  return {step.range == CorrelationRange::kUpper ? half : 0, step.halves() * half};
}

/// The start of the filter block of a chunk and a step of a pass, in halves from the tile's first.
ADJOINT_HD inline std::int32_t correlation_block_half(const CorrelationPlan& p, const CorrelationPass& pass,
                                                      std::int32_t chunk, std::int32_t step) {
  return pass.first_half * p.chunks + chunk * pass.halves + p.steps[step].first_half;
}

/// One of a gathering step's units of K: an index into taps, and a unit of that tap; -1: no unit.
struct CorrelationUnit {
  std::int32_t tap, channel;
};

ADJOINT_HD inline CorrelationUnit correlation_unit(const CorrelationPlan& p, const CorrelationPass& pass,
                                                   std::int32_t step, std::int32_t unit) {
  const std::int32_t index = (step - pass.first_step) * kChunkUnits + unit;
  const std::int32_t tap = index / p.stage_units;
  if (tap >= pass.taps) return {-1, -1};
  return {pass.first_tap + tap, index % p.stage_units};
}

/// Bytes of a block's table of gathering steps, an offset a unit of K, and of the zeros after it, which reach as far as
/// positions do: a multiple of 128.
ADJOINT_HD inline std::int32_t correlation_gather_bytes(const CorrelationPlan& p) {
  if (!p.gathers) return 0;
  const CorrelationClass& last = p.class_list[p.classes - 1];
  const std::int32_t steps = (last.first_half + last.halves) / 2;
  const std::int32_t zeros = (p.boxes - 1) * p.box_units + (p.rows * p.cols << p.log2_stage_n());
  return (4 * (kChunkUnits * steps + zeros) + 127) / 128 * 128;
}

/// Bytes of the bias of every column, for each consumer: a multiple of 128.
ADJOINT_HD constexpr int correlation_bias_bytes(int consumers, int tile_columns) {
  return (4 * consumers * tile_columns + 127) / 128 * 128;
}

/// The loaders' table: eight bytes for every value of a channel's stage, at most, and a multiple of 128.
ADJOINT_HD inline std::int32_t correlation_item_bytes(const CorrelationPlan& p) {
  return (8 * p.unit_pitch * p.boxes + 127) / 128 * 128;
}

/// The layout of a block's dynamic shared memory, in bytes from its start: the warps' staging rows, or boxes in their
/// place, then barriers, the columns' bias, filter slots, the loaders' table, the table of gathering steps, and stages
/// of the input.
struct CorrelationSmem {
  std::int32_t barriers, bias, w, items, gather, x;
  std::int64_t end;
};

/// For the wgmma kernels; a kernel passes the properties of its plan that it knows at compile time.
ADJOINT_HD inline CorrelationSmem correlation_smem(const CorrelationPlan& p, int consumers, int tile_columns,
                                                   int m_tiles, bool blocked, bool gathers) {
  CorrelationSmem at{};
  at.barriers = 16 * consumers * correlation_staged_columns(tile_columns, blocked) *
                (correlation_staged_positions(m_tiles, blocked) + 4);
  at.bias = at.barriers + kCorrelationBarrierBytes;
  at.w = at.bias + correlation_bias_bytes(consumers, tile_columns);
  at.items = at.w + 4 * p.w_slots * p.w_block_units;
  at.gather = at.items + (blocked ? 0 : correlation_item_bytes(p));
  at.x = at.gather + (gathers ? correlation_gather_bytes(p) : 0);
  at.end = at.x + std::int64_t{4} * p.x_stages * p.stage_size;
  return at;
}
ADJOINT_HD inline CorrelationSmem correlation_smem(const CorrelationPlan& p) {
  return correlation_smem(p, p.consumers, p.tile_columns, p.m_tiles, p.blocked != 0, p.gathers != 0);
}

/// For mma.sync's kernels: the bias of columns, warps' staging rows, filter slots, stages of the input, the loaders'
/// table. At most correlation_smem(), by which they are planned too.
struct CorrelationMmaSmem {
  std::int32_t staging, w, x, items;
  std::int64_t end;
};

ADJOINT_HD inline CorrelationMmaSmem correlation_mma_smem(const CorrelationPlan& p, int warps, int tile_columns,
                                                          int m_tiles) {
  CorrelationMmaSmem at{};
  at.staging = correlation_bias_bytes(1, tile_columns);
  at.w = at.staging + 4 * warps * correlation_staged_columns(tile_columns, false) * (16 * m_tiles + 4);
  at.x = at.w + 4 * p.w_slots * p.w_block_units;
  at.items = at.x + p.x_stages * 4 * kChunkUnits * p.unit_pitch;
  at.end = std::int64_t{at.items} + correlation_item_bytes(p);
  return at;
}
ADJOINT_HD inline CorrelationMmaSmem correlation_mma_smem(const CorrelationPlan& p) {
  return correlation_mma_smem(p, 4 * p.consumers, p.tile_columns, p.m_tiles);
}

struct CorrelationLimits {
  std::int64_t smem_bytes_per_sm = 233472;  // sm_90; the system uses 1024 of a block's share
  std::int32_t most_columns = 256;
  std::int32_t cluster = 2;  // blocks that may share filter blocks
  std::int32_t most_blocks_per_sm = 2;
  bool pairs_halves = false;   // the plan must pair them; a blocked one always does
  bool gathers = false;        // steps may gather
  bool boxed = false;          // the plan may be boxed
  bool every_tile = false;     // tiles that the mma kernels lack are allowed
  bool blocked = false;        // the plan must be blocked
  bool flat = false;           // the plan may be flat
  bool pairs_columns = false;  // units of half precision may be pairs of columns
};
/// For plans of sm_90a's kernels.
inline constexpr CorrelationLimits kCorrelationLimits{
    .pairs_halves = true, .gathers = true, .boxed = true, .every_tile = true, .pairs_columns = true};
inline constexpr CorrelationLimits kBlockedLimits{.every_tile = true, .blocked = true, .flat = true};

/// A boxed plan's input, float32 or pairs of halves, as the copy engine sees it: (columns, rows, images, channels of a
/// group, groups). Unless float32 is split, the copy rounds it to tf32.
ADJOINT_API TensorMapLayout correlation_input_layout(const CorrelationPlan& plan, const void* x, bool split);
/// A blocked plan's copy as the copy engine sees it: boxes of kBoxPositions positions, halos and all.
ADJOINT_API TensorMapLayout correlation_copy_layout(const CorrelationPlan& plan, const void* copy);

/// Bytes of the input.
inline std::int64_t correlation_input_bytes(const CorrelationPlan& p) {
  return p.batch * p.groups * p.k_channels * p.in_h * p.in_w * p.unit_columns * p.element_bytes();
}

/// Bytes that one copy may move from a row of x, as far as the plan's shape of a stage and the rows' alignment allow.
inline std::int32_t correlation_load_bytes(const CorrelationPlan& plan, const void* x, std::int64_t element_size) {
  if (plan.unit_columns == 2) return 16;  // the copy engine's
  const std::int64_t row = plan.in_w * element_size;
  for (const std::int32_t bytes : {16, 8, 4}) {
    if (bytes == 8 && plan.in_stride_w != 1) continue;
    if (bytes <= plan.copy_elements * element_size && rows_aligned(x, row, bytes)) return bytes;
  }
  return static_cast<std::int32_t>(element_size);
}

/// False if the kernels do not support the geometry: extents from 2^28 on, more steps, passes or classes than fit, or a
/// copy of more than kMostCopyBytes.
ADJOINT_API bool plan_correlation(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                                  const CorrelationLimits& limits, const Machine& machine, CorrelationPlan& plan);
/// conv of half precision by pairs of columns, even if another plan would be faster; false if pair_columns() is false.
/// `limits` must allow boxes.
ADJOINT_API bool plan_paired_columns(const ConvGeometry& geometry, const CorrelationLimits& limits,
                                     const Machine& machine, CorrelationPlan& plan);

}  // namespace adjoint::cuda

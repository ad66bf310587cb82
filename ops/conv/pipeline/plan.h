// The schedule of the pipeline: `conv` and `conv_transpose` of channels_last tensors by wgmma on sm_90, in half
// precision and TF32. Channels, which are summed, are contiguous in both operands, so that the copy engine brings them
// to shared memory in the order that wgmma reads. Plain C++ for host and device, tested without a GPU.
//
//     result[k][position] = sum over taps, channels of filter[k][tap][channel] * source[channel][position + shift of
//     tap]
//
// A stride is cut into phases, so that every tap is a shift: the source's positions that are equal modulo conv's stride
// form a separate tensor, and so do the result's modulo conv_transpose's. A box of the source, of 128 bytes of channels
// and a tile's positions with their halo, is loaded once, and each tap reads it from another position on: a position is
// a row of 128 bytes, swizzled by its address, so a descriptor may begin at any. A warpgroup's tile is 64 results
// (wgmma's rows) by `columns` positions: a strip eight wide, whose rows are the box's width apart.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>

#include <array>
#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kPipelineAxes = 3;         // depth, height, width
inline constexpr int kPipelineTeams = 2;        // warpgroups that multiply and store
inline constexpr int kPipelineThreads = 384;    // and one whose warps start the operands' copies
inline constexpr int kPipelineLineBytes = 128;  // of channels, and so of a position
inline constexpr int kPipelineResults = 64;     // of a warpgroup's tile
inline constexpr int kPipelineStrip = 8;        // positions of a row of one
inline constexpr int kPipelineFilterBytes = kPipelineResults * kPipelineLineBytes;  // of a slot: one tap
inline constexpr int kPipelineTableBytes = 1024;                                    // barriers
inline constexpr int kMostPipelinePhases = 8, kMostPipelineTaps = 128;
inline constexpr int kMostPipelineBoxSlots = 4, kMostPipelineFilterSlots = 16;
inline constexpr int kMostPipelineSlices = 4;

/// One value for each of depth, height and width; 1 for axes that tensors lack.
using Extent3 = std::array<std::int64_t, kPipelineAxes>;

/// A problem in the pipeline's terms: the source is conv's image or conv_transpose's feature, the result the other.
struct PipelineGeometry {
  std::int64_t batch, source_channels, result_channels;
  Extent3 source, result, kernel, stride, padding, dilation;
  bool transposed;  // conv_transpose
};
ADJOINT_API PipelineGeometry pipeline_geometry(const ConvGeometry& geometry, bool transposed);

/// One of the tensors; its positions equal modulo `step` are a phase.
struct PipelineTensor {
  std::int64_t batch, channels;
  Extent3 extents, step;

  std::int64_t phases() const { return step[0] * step[1] * step[2]; }
};

/// A tap of a phase: its place in the filter, and the box's position that the tile's first one reads.
struct PipelineTap {
  std::uint16_t filter, shift;
};
/// A box of a source's phase: its start, relative to the tile's.
struct PipelineBox {
  std::int16_t phase, first[kPipelineAxes];
};

struct PipelinePlan {
  PipelineTensor source, result;
  std::int64_t taps;                    // of the filter
  std::int32_t element_bytes, columns;  // of an operand; positions of a warpgroup's tile
  /// True if the warpgroups' tiles have the same results and neighbouring strips; otherwise they have the same strip.
  bool shares_filter;
  std::int32_t chunks;                             // of the sum, 128 bytes of channels each
  std::int32_t boxes, box_extents[kPipelineAxes];  // of a chunk
  std::int32_t box_slots, filter_slots;
  std::int32_t slices;  // of a tile's boxes, one for each block of a cluster: then a cluster has one tile
  std::int32_t lead;    // products by which the first warpgroup begins before the second
  std::int32_t tiles;   // of a block: units of the same positions follow each other
  Divider units_divider, blocks_divider, tiles_divider[kPipelineAxes];
  PipelineBox box_list[kMostPipelinePhases];
  PipelineTap tap_list[kMostPipelineTaps];
  /// For each phase of the result: the taps of each box, one after the other.
  std::uint8_t first_tap[kMostPipelinePhases][kMostPipelinePhases + 1];

  /// Blocks of a phase of the result, kPipelineResults each.
  std::int64_t result_blocks() const { return blocks_divider.divisor(); }
  ADJOINT_HD std::int32_t rows() const { return columns / kPipelineStrip; }
  ADJOINT_HD std::int32_t box_copy_bytes() const {
    return box_extents[0] * box_extents[1] * box_extents[2] * kPipelineLineBytes;
  }
  /// Swizzles repeat every 1024 bytes.
  ADJOINT_HD std::int32_t box_bytes() const { return (box_copy_bytes() + 1023) / 1024 * 1024; }
  ADJOINT_HD std::int32_t filter_rings() const { return shares_filter ? 1 : kPipelineTeams; }
  ADJOINT_HD std::int32_t ring_bytes() const {
    return box_slots * box_bytes() + filter_rings() * filter_slots * kPipelineFilterBytes;
  }
  /// The size of a warpgroup's sums, which the blocks of a cluster exchange in the rings' memory.
  ADJOINT_HD std::int32_t exchange_bytes() const { return columns * kPipelineResults * 4; }
  /// The rows of a warpgroup's tile that a block stores.
  ADJOINT_HD std::int32_t stored_rows() const { return rows() / slices; }
  /// Of a warpgroup's results.
  ADJOINT_HD std::int32_t stage_bytes() const { return columns * kPipelineResults * element_bytes; }
  ADJOINT_HD std::int32_t smem_bytes() const {
    return kPipelineTableBytes + ring_bytes() + kPipelineTeams * stage_bytes();
  }
};

/// The boxes of a tile that a block multiplies, all taps of each, in the order of the chunks.
struct PipelineSlice {
  std::int32_t chunk, box;  // the next one
  std::int32_t left;        // boxes, with it

  ADJOINT_HD void advance(std::int32_t boxes) {
    --left;
    if (++box < boxes) return;
    box = 0;
    ++chunk;
  }
};

ADJOINT_HD inline PipelineSlice pipeline_slice(const PipelinePlan& p, std::int32_t index) {
  const std::int32_t all = p.chunks * p.boxes, first = all * index / p.slices;
  return {first / p.boxes, first % p.boxes, all * (index + 1) / p.slices - first};
}

/// A warpgroup's tile.
struct PipelineTile {
  std::int32_t at[kPipelineAxes], sample;  // the strip's first position, of a phase
  std::int32_t phase, result;              // the first of its results
};

ADJOINT_HD inline PipelineTile pipeline_tile(const PipelinePlan& p, std::int32_t index, int team) {
  PipelineTile tile{};
  std::int32_t unit = index;
  index = p.units_divider.split(unit);
  if (!p.shares_filter) unit = unit * kPipelineTeams + team;
  tile.phase = p.blocks_divider.split(unit);
  tile.result = unit * kPipelineResults;
  const std::int32_t size[] = {1, p.rows(), kPipelineStrip * (p.shares_filter ? kPipelineTeams : 1)};
  for (int axis = kPipelineAxes - 1; axis >= 0; --axis) {
    std::int32_t place = index;
    index = p.tiles_divider[axis].split(place);
    tile.at[axis] = place * size[axis];
  }
  if (p.shares_filter) tile.at[kPipelineAxes - 1] += team * kPipelineStrip;
  tile.sample = index;
  return tile;
}

/// For halves, or floats that are rounded to tf32; there must be one group. False if channels are not multiples of 16
/// bytes, if a result's phase has no taps, and if boxes are too large, as with long dilations.
ADJOINT_API bool plan_pipeline(const PipelineGeometry& geometry, Arithmetic arithmetic, const Machine& machine,
                               PipelinePlan& plan);

/// The time of the plan's kernel, in clocks of a multiprocessor: for each round of tiles, the larger of its products'
/// time and the time that shared memory and the L2 need to deliver their operands, plus the stores after them.
ADJOINT_API double pipeline_clocks(const PipelinePlan& plan, const Machine& machine);

/// The tensors as the copy engine sees them, channels innermost: a phase of the source in boxes, the filter, (results,
/// taps, channels), in a tap's of 64 results, and a phase of the result in a warpgroup's tile. All must begin at
/// multiples of 16 bytes. results_innermost: the filter is (channels, taps, results), which wgmma reads in halves.
ADJOINT_API TensorMapLayout pipeline_source_layout(const PipelinePlan& plan, int phase, const void* data, DType dtype);
ADJOINT_API TensorMapLayout pipeline_filter_layout(const PipelinePlan& plan, bool results_innermost, const void* data,
                                                   DType dtype);
ADJOINT_API TensorMapLayout pipeline_result_layout(const PipelinePlan& plan, int phase, void* data, DType dtype);

}  // namespace adjoint::cuda

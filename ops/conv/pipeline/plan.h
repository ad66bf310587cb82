// The schedule of the pipeline: `conv` and `conv_transpose` of channels_last tensors by wgmma on sm_90, in half
// precision and TF32. Channels, which are summed, are contiguous in both operands, so that the copy engine brings them
// to shared memory in the order that wgmma reads. Plain C++ for host and device, tested without a GPU.
//
//     result[k][position] = sum over taps, channels of filter[k][tap][channel] * source[channel][position + shift of
//     tap]
//
// A stride is cut into phases, so that every tap is a shift: the source's positions that are equal modulo conv's stride
// form a separate tensor, and so do the result's modulo conv_transpose's. A tile lies in a plane. A box of the source,
// of 128 bytes of channels and the tile's positions with their halo in one plane, is loaded once, and each tap of this
// plane reads it from another position on: in shared memory a position is a row of 128 bytes, swizzled by its address,
// so a descriptor may begin at any. A warpgroup's tile is 64 results (wgmma's rows) by `columns` positions: a strip
// eight wide, whose rows are the box's width apart.
//
// A position has four axes: sample, depth, height, width. The copy engine takes them in any order, so a plan chooses
// the two along which its strips lie: those whose extents its tiles divide best. Strips of small images are eight
// samples wide.
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

inline constexpr int kPipelineAxes = 4;         // sample, depth, height, width, in a plan's order
inline constexpr int kPipelineTeams = 2;        // warpgroups that multiply and store
inline constexpr int kPipelineThreads = 384;    // and one whose warps start the operands' copies
inline constexpr int kPipelineLineBytes = 128;  // of channels, and so of a position
inline constexpr int kPipelineStepBytes = 32;   // of a line: a product's channels
inline constexpr int kPipelineResults = 64;     // of a warpgroup's tile
inline constexpr int kPipelineStrip = 8;        // positions of a row of one
inline constexpr int kPipelineFilterBytes = kPipelineResults * kPipelineLineBytes;  // of a slot: one tap
inline constexpr int kPipelineTableBytes = 1024;                                    // barriers
inline constexpr int kMostPipelinePhases = 8, kMostPipelineBoxes = 32, kMostPipelineTaps = 128;
inline constexpr int kMostPipelineBoxSlots = 4, kMostPipelineFilterSlots = 16;
inline constexpr int kMostPipelineSlices = 4;

/// One value for each axis of positions; 1 for axes that tensors lack.
using PipelineAxes = std::array<std::int64_t, kPipelineAxes>;

/// A problem in the pipeline's terms: the source is conv's image or conv_transpose's feature, the result the other. The
/// kernel has one tap along the samples. Pitches are the distances of neighbours on each axis in memory, in positions,
/// and of taps in the filter.
struct PipelineGeometry {
  std::int64_t source_channels, result_channels;
  PipelineAxes source, result, kernel, stride, padding, dilation, source_pitch, result_pitch, kernel_pitch;
  bool transposed;  // conv_transpose
};
/// With axes in the order of memory.
ADJOINT_API PipelineGeometry pipeline_geometry(const ConvGeometry& geometry, bool transposed);

/// One of the tensors; its positions equal modulo `step` are a phase.
struct PipelineTensor {
  std::int64_t channels;
  PipelineAxes extents, pitch, step;

  std::int64_t phases() const { return step[0] * step[1] * step[2] * step[3]; }
};

/// A tap of a phase: its place in the filter, and the box's position that the tile's first one reads.
struct PipelineTap {
  std::uint16_t filter, shift;
};
/// A box of a source's phase: its start, relative to the tile's. The first two axes are those of planes.
struct PipelineBox {
  std::int16_t phase, first[kPipelineAxes];
};

struct PipelinePlan {
  PipelineTensor source, result;
  std::int64_t taps;                    // of the filter
  std::int32_t element_bytes, columns;  // of an operand; positions of a warpgroup's tile
  /// True if the warpgroups' tiles have the same results and neighbouring strips; otherwise they have the same strip.
  bool shares_filter;
  std::int32_t chunks;               // of the sum, 128 bytes of channels each
  std::int32_t last_steps;           // products of the last chunk that are not empty, of 32 bytes of channels each
  std::int32_t boxes;                // of a chunk
  std::int32_t box_rows, box_width;  // positions
  std::int32_t box_slots, filter_slots;
  std::int32_t slices;  // of a tile's boxes, one for each block of a cluster: then a cluster has one tile
  /// True if planes outside the source, and the empty end of a last line, are left out. The loop that looks for them
  /// takes longer for the rest.
  bool skips;
  std::int32_t lead;   // products by which the first warpgroup begins before the second
  std::int32_t tiles;  // of a block: units of the same positions follow each other
  Divider units_divider, blocks_divider, tiles_divider[kPipelineAxes];
  PipelineBox box_list[kMostPipelineBoxes];
  std::int32_t box_planes[kMostPipelineBoxes][2];  // of its phase, along the axes of planes
  PipelineTap tap_list[kMostPipelineTaps];
  /// For each phase of the result: the taps of each box, one after the other.
  std::uint8_t first_tap[kMostPipelinePhases][kMostPipelineBoxes + 1];

  /// Blocks of a phase of the result, kPipelineResults each.
  std::int64_t result_blocks() const { return blocks_divider.divisor(); }
  ADJOINT_HD std::int32_t rows() const { return columns / kPipelineStrip; }
  ADJOINT_HD std::int32_t box_copy_bytes() const { return box_rows * box_width * kPipelineLineBytes; }
  /// Swizzles repeat every 1024 bytes.
  ADJOINT_HD std::int32_t box_bytes() const { return (box_copy_bytes() + 1023) / 1024 * 1024; }
  ADJOINT_HD std::int32_t filter_rings() const { return shares_filter ? 1 : kPipelineTeams; }
  ADJOINT_HD std::int32_t ring_bytes() const {
    return box_slots * box_bytes() + filter_rings() * filter_slots * kPipelineFilterBytes;
  }
  /// The lines that a copy of a tap brings. The copy engine fills a line outside the filter with zeros at an eighth of
  /// its speed, so lines of results that are not stored are left as they are. Lines of channels are needed wherever
  /// they are multiplied.
  ADJOINT_HD std::int32_t filter_lines(bool results_innermost) const {
    const std::int64_t all = !results_innermost ? result.channels : skips ? source.channels : kPipelineResults;
    return static_cast<std::int32_t>(all < kPipelineResults ? (all + 15) / 16 * 16 : kPipelineResults);
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
  std::int32_t at[kPipelineAxes];  // the strip's first position, of a phase
  std::int32_t phase, result;      // the first of its results
};

ADJOINT_HD inline PipelineTile pipeline_tile(const PipelinePlan& p, std::int32_t index, int team) {
  PipelineTile tile{};
  std::int32_t unit = index;
  index = p.units_divider.split(unit);
  if (!p.shares_filter) unit = unit * kPipelineTeams + team;
  tile.phase = p.blocks_divider.split(unit);
  tile.result = unit * kPipelineResults;
  const std::int32_t size[] = {1, 1, p.rows(), kPipelineStrip * (p.shares_filter ? kPipelineTeams : 1)};
  for (int axis = kPipelineAxes - 1; axis > 0; --axis) {
    std::int32_t place = index;
    index = p.tiles_divider[axis].split(place);
    tile.at[axis] = place * size[axis];
  }
  tile.at[0] = index;
  if (p.shares_filter) tile.at[kPipelineAxes - 1] += team * kPipelineStrip;
  return tile;
}

ADJOINT_HD inline int pipeline_taps(const PipelinePlan& p, std::int32_t phase, std::int32_t box) {
  return p.first_tap[phase][box + 1] - p.first_tap[phase][box];
}

/// True if the tile has taps in the box, and the box's plane is in the source.
ADJOINT_HD inline bool pipeline_reads(const PipelinePlan& p, const PipelineTile& tile, std::int32_t box) {
  if (pipeline_taps(p, tile.phase, box) == 0) return false;
  for (int axis = 0; axis < 2; ++axis) {
    const std::int32_t place = tile.at[axis] + p.box_list[box].first[axis];
    if (place < 0 || place >= p.box_planes[box][axis]) return false;
  }
  return true;
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

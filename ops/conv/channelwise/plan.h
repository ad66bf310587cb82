// The schedule of the CUDA kernels for few channels a group: plain C++ for host and device, tested without a GPU.
//
// conv and conv_transpose are one gather: along an axis, result position q * phases + phase sums run[phase].taps taps,
// and tap i is at source position run[phase].source + q * period_source + i * tap_spacing. conv has one phase and
// period_source = stride; conv_transpose has stride phases and period_source = 1. Result rows q, q + residues, q + 2 *
// residues ... read source rows that are multiples of tap_spacing apart, so the rows of one residue are a problem
// without dilation, whose window of taps moves by `shift` taps a row.
//
// A block computes a tile: kChannelwiseWalk * chunks rows of one residue and of every phase, some columns, for a few
// (sample, group) units. It stages the source rows that they read as float32 in shared memory, with zeros outside the
// source. A thread owns a column and walks down its rows, a chunk at a time. In a 1-D problem it walks along the row
// instead, `lanes` columns a step.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kChannelwiseWalk = 8;       // results of a chunk
inline constexpr int kChannelwiseThreads = 256;  // per block, at most
inline constexpr int kChannelwiseMostWarps = kChannelwiseThreads / 32;
inline constexpr int kChannelwiseMaxStride = 16;
inline constexpr int kChannelwiseMaxSourceChannels = 16;  // limit per group for conv and conv_transpose
inline constexpr int kChannelwiseFewPairs = 16;           // channels times channels of a group, limit for conv_weight
inline constexpr int kChannelwiseSmemBytes = 48 * 1024;   // per block, at most: kernels would have to request more

/// Taps tap + i * tap_step at source positions source + i * tap_spacing, i in [0, taps), inside the source or not.
struct ChannelwiseRun {
  std::int32_t taps, tap, source;
};

struct ChannelwiseAxis {
  std::int32_t transposed;
  std::int32_t result, source;
  std::int32_t phases, period_source;
  std::int32_t tap_step, tap_spacing;
  std::int32_t residues, shift;
  std::int32_t first_source, last_source;  // least and most of the runs' `source`
  std::int32_t most_taps;
  ChannelwiseRun run[kChannelwiseMaxStride];
};

struct ChannelwisePlan {
  ChannelwiseAxis h, w;
  std::int32_t groups, channels, source_channels;  // of a group
  std::int32_t kernel_w, taps;
  std::int64_t filter_channel, filter_source;  // the filter's strides within a group
  std::int64_t units;                          // (sample, group) pairs; conv_weight: samples
  std::int64_t unit_stride;                    // source elements between units

  std::int32_t taps_h, taps_w;                 // of the compiled kernel; 0: any
  std::int32_t walk_shift;                     // of the compiled kernel, for h.shift
  std::int32_t channel_block, channel_blocks;  // channels of the result: computed together; blocks per group
  std::int32_t along_row;
  std::int32_t lanes, lines;             // threads along columns; threads across (channel, phase, chunk)
  std::int32_t chunks, tile_units;       // per tile
  std::int32_t column_tiles, row_tiles;  // row_tiles: per residue
  std::int32_t stage_channels, stage_rows, stage_columns;
  std::int32_t pitch, plane_pitch, unit_pitch;  // floats; congruent to the source's, modulo a vector of 16 bytes
  std::int32_t stage_floats;                    // whole vectors, so that another stage may follow
  std::int32_t step_pitch;                      // floats of the stage between steps of a walk
  std::int64_t result_step;                     // elements of the result between steps
  std::int32_t vector;                          // elements in 16 bytes
  std::int32_t row_vectors;                     // vectors that hold a staged row at any alignment
  std::int32_t threads;                         // per block: lanes * lines in whole warps
  // Division of a stage's copies: thread t copies vectors t % vector_threads, + vector_threads ... of rows t /
  // vector_threads, + row_threads ...: plane by plane if rows are aligned alike, else over all planes' rows.
  std::int32_t by_plane, vector_threads, row_threads;
  Divider lane_divider, chunk_divider, phase_divider, channel_divider, group_divider, phase_w_divider;
  Divider vector_threads_divider, stage_rows_divider, stage_channels_divider;
  Divider column_tile_divider, row_tile_divider, plane_tile_divider;

  ADJOINT_HD std::int64_t unit_tiles() const { return (units + tile_units - 1) / tile_units; }
  /// Tiles per block of units.
  ADJOINT_HD std::int64_t plane_tiles() const {
    return static_cast<std::int64_t>(column_tiles) * row_tiles * h.residues;
  }
  ADJOINT_HD std::int64_t tiles() const { return unit_tiles() * plane_tiles(); }
  /// Shared memory per block of conv or conv_transpose.
  std::int64_t smem_bytes() const { return std::int64_t{4} * stage_floats; }
};

struct ChannelwiseTile {
  std::int64_t unit;
  std::int32_t units;
  std::int32_t residue, first_step;        // first_step: of the walk down a residue's rows
  std::int32_t column;                     // of the result, lane 0's first
  std::int32_t source_row, source_column;  // at the stage's beginning; staged rows are tap_spacing apart
};

/// For b > 0.
ADJOINT_HD constexpr std::int32_t channelwise_floor_div(std::int32_t a, std::int32_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
ADJOINT_HD constexpr std::int32_t channelwise_ceil_div(std::int32_t a, std::int32_t b) {
  return -channelwise_floor_div(-a, b);
}

ADJOINT_HD inline ChannelwiseTile channelwise_tile(const ChannelwisePlan& p, std::int32_t index) {
  const auto split = [](std::int32_t n, const Divider& divider, std::int32_t& rest) {
    const auto quotient = static_cast<std::int32_t>(divider.divide(static_cast<std::uint32_t>(n)));
    rest = n - quotient * static_cast<std::int32_t>(divider.divisor());
    return quotient;
  };
  ChannelwiseTile tile;
  std::int32_t in_plane, column_tile, row_tile;
  tile.unit = static_cast<std::int64_t>(split(index, p.plane_tile_divider, in_plane)) * p.tile_units;
  tile.units = static_cast<std::int32_t>(p.units - tile.unit < p.tile_units ? p.units - tile.unit : p.tile_units);
  tile.residue = split(split(in_plane, p.column_tile_divider, column_tile), p.row_tile_divider, row_tile);
  const std::int32_t steps = kChannelwiseWalk * p.chunks;
  tile.first_step = row_tile * steps;
  tile.column = column_tile * p.lanes * (p.along_row != 0 ? steps : 1);
  const auto period = static_cast<std::int32_t>(p.phase_w_divider.divide(static_cast<std::uint32_t>(tile.column)));
  tile.source_column = p.w.first_source + period * p.w.period_source;
  std::int32_t first = p.h.first_source + tile.residue * p.h.period_source;
  if (p.h.transposed != 0) {
    first = p.h.tap_spacing == 1
                ? p.h.first_source
                : tile.residue + channelwise_floor_div(p.h.first_source, p.h.tap_spacing) * p.h.tap_spacing;
  }
  tile.source_row = first + tile.first_step * p.h.shift * p.h.tap_spacing;
  return tile;
}

/// One phase's rows of a tile: the stage's row under tap 0 of the walk's first step, and that step's row of the result;
/// each step adds h.shift and h.residues * h.phases.
struct ChannelwiseRows {
  std::int32_t stage_row, result_row;
};

ADJOINT_HD inline ChannelwiseRows channelwise_rows(const ChannelwisePlan& p, const ChannelwiseTile& tile,
                                                   std::int32_t phase) {
  std::int32_t stage_row = 0, period = tile.residue;
  if (p.h.transposed != 0 && p.h.tap_spacing == 1) {
    stage_row = p.h.run[phase].source - p.h.first_source;
  } else if (p.h.transposed != 0) {
    const std::int32_t spacing = p.h.tap_spacing, source = p.h.run[phase].source;
    const std::int32_t above = channelwise_ceil_div(source - tile.residue, spacing);
    stage_row = above - channelwise_floor_div(p.h.first_source, spacing);
    period = tile.residue + above * spacing - source;
  }
  return {stage_row, (period + p.h.residues * tile.first_step) * p.h.phases + phase};
}

/// For conv or conv_transpose. Returns false if the kernels do not support the geometry: extents from 2^28 on, strides
/// past kChannelwiseMaxStride, rows too long for shared memory.
ADJOINT_API bool plan_channelwise(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                                  ChannelwisePlan& plan);

/// For conv_weight: conv's walk over single channels; a block computes a run of tiles for one pair of channels.
struct ChannelwiseWeightPlan {
  ChannelwisePlan walk;
  std::int32_t kernel_h, tap_row_blocks, tap_column_blocks;  // taps_h x taps_w taps each
  std::int32_t image_channels, feature_channels;             // of a group
  std::int64_t pairs;                                        // (feature channel, image channel of its group)
  std::int64_t tiles_per_split;
  std::int32_t splits;

  /// For the splits' sums.
  std::int64_t workspace_bytes() const { return pairs * walk.taps * splits * 4; }
  /// Shared memory per block: two stages, which every warp's sums and their totals replace at the end.
  std::int64_t smem_bytes() const {
    const std::int64_t stages = 2 * walk.smem_bytes();
    const std::int64_t sums = std::int64_t{4} * (kChannelwiseMostWarps + 1) * walk.taps_h * walk.taps_w;
    return stages > sums ? stages : sums;
  }
};

ADJOINT_API bool plan_channelwise_weight(const ConvGeometry& geometry, Arithmetic arithmetic,
                                         ChannelwiseWeightPlan& plan);

}  // namespace adjoint::cuda

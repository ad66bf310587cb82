// Lines of a tile: the walk of one thread of conv or conv_transpose, and its results by definition.
#pragma once

#include <adjoint/ops/conv/channelwise/plan.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::channelwise {

template <class T>
struct GatherOperands {
  const T* source;
  const T* filter;
  const T* bias;  // or null
  T* result;
  Activate<float> activate;  // of sum and bias
};

/// One walk's results: a line of a tile, in one column.
struct Line {
  std::int64_t unit;
  int channel, phase;  // of the result
  int chunk;
  int row, column, count;  // of the first result; number of results
  int stage;               // the stage's element under tap (0, 0) of the first result
};

__device__ __forceinline__ Line find_line(const ChannelwisePlan& p, const ChannelwiseTile& tile, int index,
                                          int column) {
  const auto over_chunks = static_cast<int>(p.chunk_divider.divide(static_cast<unsigned>(index)));
  const auto over_phases = static_cast<int>(p.phase_divider.divide(static_cast<unsigned>(over_chunks)));
  const auto unit = static_cast<int>(p.channel_divider.divide(static_cast<unsigned>(over_phases)));
  Line line;
  line.unit = tile.unit + unit;
  line.channel = (over_phases - unit * p.channel_blocks) * p.channel_block;
  line.phase = over_chunks - over_phases * p.h.phases;
  line.chunk = index - over_chunks * p.chunks;
  const ChannelwiseRows rows = channelwise_rows(p, tile, line.phase);
  const int first_step = line.chunk * kChannelwiseWalk;
  line.row = rows.result_row;
  line.column = column;
  line.stage = unit * p.unit_pitch + rows.stage_row * p.pitch + first_step * p.step_pitch;
  if (p.along_row != 0) {
    line.column += first_step * p.lanes;
    line.count = (p.w.result - line.column + p.lanes - 1) / p.lanes;
  } else {
    const int step_rows = p.h.residues * p.h.phases;
    line.row += first_step * step_rows;
    line.count = (p.h.result - line.row + step_rows - 1) / step_rows;
  }
  return line;
}

__device__ __forceinline__ std::int64_t group_of(const ChannelwisePlan& p, std::int64_t unit) {
  return unit - p.group_divider.divide(static_cast<unsigned>(unit)) * static_cast<std::int64_t>(p.groups);
}

/// The sum of a line's result `step` in `channel` by definition: only products with a place in the source.
template <class T>
__device__ __forceinline__ float defined_sum(const ChannelwisePlan& p, const GatherOperands<T>& operands,
                                             const Line& line, int channel, int step) {
  const int row = p.along_row != 0 ? line.row : line.row + step * p.h.residues * p.h.phases;
  const int column = p.along_row != 0 ? line.column + step * p.lanes : line.column;
  const ChannelwiseRun run_h = p.h.run[row % p.h.phases], run_w = p.w.run[column % p.w.phases];
  const int source_row = run_h.source + row / p.h.phases * p.h.period_source;
  const int source_column = run_w.source + column / p.w.phases * p.w.period_source;
  const std::int64_t group = group_of(p, line.unit);
  float sum = 0;
  for (int c = 0; c < p.source_channels; ++c) {
    const T* plane =
        operands.source + (line.unit * p.source_channels + c) * (static_cast<std::int64_t>(p.h.source) * p.w.source);
    const T* taps = operands.filter + group * p.channels * p.source_channels * p.taps + channel * p.filter_channel +
                    c * p.filter_source;
    for (int i = 0; i < run_h.taps; ++i) {
      const int h = source_row + i * p.h.tap_spacing;
      if (h < 0 || h >= p.h.source) continue;
      for (int j = 0; j < run_w.taps; ++j) {
        const int w = source_column + j * p.w.tap_spacing;
        if (w < 0 || w >= p.w.source) continue;
        const int tap = (run_h.tap + i * p.h.tap_step) * p.kernel_w + run_w.tap + j * p.w.tap_step;
        sum = fmaf(to_float(plane[static_cast<std::int64_t>(h) * p.w.source + w]), to_float(taps[tap]), sum);
      }
    }
  }
  return sum;
}

/// Recomputes a chunk's results by definition. A product with zero, outside the source or for a tap that a phase lacks,
/// is NaN if the other factor is infinite, so this is done if a sum came out as NaN.
template <class T>
__device__ __forceinline__ void store_defined(const ChannelwisePlan& p, const GatherOperands<T>& operands,
                                              const Line& line, int channels, int first, int count, T* to) {
  const std::int64_t result_plane = static_cast<std::int64_t>(p.h.result) * p.w.result;
#pragma unroll 1
  for (int i = 0; i < channels * count; ++i) {
    const int b = i / count, step = i - b * count, channel = line.channel + b;
    const float sum = defined_sum(p, operands, line, channel, first + step);
    const std::int64_t bias_at = group_of(p, line.unit) * p.channels + channel;
    const float bias = operands.bias != nullptr ? to_float(operands.bias[bias_at]) : 0.0F;
    to[b * result_plane + step * p.result_step] = from_float<T>(operands.activate(sum + bias));
  }
}

}  // namespace adjoint::cuda::channelwise

// conv and conv_transpose with few channels a group (channelwise/plan.h describes how the work is split).
#pragma once

#include <adjoint/ops/conv/channelwise/cuda/line.cuh>
#include <adjoint/ops/conv/channelwise/cuda/stage.cuh>
#include <adjoint/ops/conv/channelwise/cuda/walk.cuh>

#include <cstdint>

namespace adjoint::cuda::channelwise {

/// Taps of one channel of the source, for one phase of rows and of columns; zeros past the phase's last.
template <int kTapsH, int kTapsW>
struct Taps {
  float values[kTapsH][kTapsW];

  template <class T>
  __device__ __forceinline__ void load(const ChannelwisePlan& p, const T* filter, const ChannelwiseRun& run_h,
                                       const ChannelwiseRun& run_w) {
#pragma unroll
    for (int i = 0; i < kTapsH; ++i) {
#pragma unroll
      for (int j = 0; j < kTapsW; ++j) {
        const int tap = (run_h.tap + i * p.h.tap_step) * p.kernel_w + run_w.tap + j * p.w.tap_step;
        values[i][j] = i < run_h.taps && j < run_w.taps ? to_float(filter[tap]) : 0.0F;
      }
    }
  }
};

/// Any number of taps at any spacing: a loop over them around the walk's steps. `channels`: per block, at least 1.
template <class T, int kChannels>
__device__ __forceinline__ void add_any_taps(const ChannelwisePlan& p, const T* filter, int channels,
                                             const ChannelwiseRun& run_h, const ChannelwiseRun& run_w,
                                             const float* from, float (&sums)[kChannels][kChannelwiseWalk]) {
  for (int i = 0; i < run_h.taps; ++i) {
    const float* row = from + i * p.pitch;
    const T* taps = filter + (run_h.tap + i * p.h.tap_step) * p.kernel_w + run_w.tap;
#pragma unroll 2
    for (int j = 0; j < run_w.taps; ++j) {
      float tap[kChannels];
#pragma unroll
      for (int b = 0; b < kChannels; ++b) {
        tap[b] = b < channels ? to_float(taps[b * p.filter_channel + j * p.w.tap_step]) : 0.0F;
      }
      const float* at = row + j * p.w.tap_spacing;
#pragma unroll
      for (int step = 0; step < kChannelwiseWalk; ++step) {
        const float value = at[step * p.step_pitch];
#pragma unroll
        for (int b = 0; b < kChannels; ++b) sums[b][step] = fmaf(value, tap[b], sums[b][step]);
      }
    }
  }
}

/// One activation after the other: eight copies of their code would evict the walk from the instruction cache.
__device__ __forceinline__ void activate_values(const Activate<float>& activate, float (&values)[kChannelwiseWalk]) {
  if (activate.is_none()) return;
#pragma unroll 1
  for (int i = 0; i < kChannelwiseWalk; ++i) {
    const float result = activate(values[0]);
#pragma unroll
    for (int j = 0; j + 1 < kChannelwiseWalk; ++j) values[j] = values[j + 1];
    values[kChannelwiseWalk - 1] = result;
  }
}

/// Adds the bias, activates and stores `count` results of one channel; returns true if a sum is NaN.
template <class T>
__device__ __forceinline__ bool store_chunk(const ChannelwisePlan& p, const Activate<float>& activate, int count,
                                            float bias, const float (&sums)[kChannelwiseWalk], T* to) {
  float values[kChannelwiseWalk];
  bool lost = false;
#pragma unroll
  for (int step = 0; step < kChannelwiseWalk; ++step) {
    values[step] = sums[step] + bias;
    lost |= sums[step] != sums[step];  // nvcc treats std::isunordered, and libstdc++'s other builtins, as undefined
  }
  activate_values(activate, values);
  if (count >= kChannelwiseWalk) {
#pragma unroll
    for (int step = 0; step < kChannelwiseWalk; ++step, to += p.result_step) *to = from_float<T>(values[step]);
  } else {
#pragma unroll
    for (int step = 0; step + 1 < kChannelwiseWalk; ++step, to += p.result_step) {
      if (step < count) *to = from_float<T>(values[step]);
    }
  }
  return lost;
}

/// Sums of a chunk whose first result has tap (0, 0) at `from`, over one channel of the source.
template <int kTapsH, int kTapsW, int kShift, int kChannels>
__device__ __forceinline__ void add_channel(const ChannelwisePlan& p, const Taps<kTapsH, kTapsW> (&taps)[kChannels],
                                            const float* from, float (&sums)[kChannels][kChannelwiseWalk]) {
  const auto meet = [&](int step, int i, const float(&values)[kTapsW]) {
#pragma unroll
    for (int b = 0; b < kChannels; ++b) {
#pragma unroll
      for (int j = 0; j < kTapsW; ++j) sums[b][step] = fmaf(values[j], taps[b].values[i][j], sums[b][step]);
    }
  };
  if constexpr (kTapsH == 1) {
    walk<1, kTapsW, 1>(from, p.step_pitch, 1, 1, meet);
  } else {
    walk<kTapsH, kTapsW, kShift>(from, p.pitch, p.h.shift, 1, meet);
  }
}

/// All lines of one thread. kTapsH, kTapsW: the most taps of a phase; kTapsH = 0 for any number. kChannels: channels of
/// the result computed together.
template <class T, int kTapsH, int kTapsW, int kShift, int kChannels>
__device__ __forceinline__ void compute_lines(const ChannelwisePlan& p, const ChannelwiseTile& tile,
                                              const GatherOperands<T>& operands, const float* stage, int lane,
                                              int thread_line) {
  const int column = tile.column + lane;
  if (column >= p.w.result) return;
  const auto period = static_cast<int>(p.phase_w_divider.divide(static_cast<unsigned>(column)));
  const ChannelwiseRun run_w = p.w.run[column - period * p.w.phases];
  stage += run_w.source + period * p.w.period_source - tile.source_column;
  const int lines = tile.units * p.channel_blocks * p.h.phases * p.chunks;
  const int share = (lines + p.lines - 1) / p.lines;
  const int end = min(lines, (thread_line + 1) * share);
  const std::int64_t result_plane = static_cast<std::int64_t>(p.h.result) * p.w.result;
  Taps<kTapsH == 0 ? 1 : kTapsH, kTapsH == 0 ? 1 : kTapsW> taps[kChannels] = {};
#pragma unroll 1
  for (int index = thread_line * share; index < end;) {
    const Line line = find_line(p, tile, index, column);
    const int chunks = min(end - index, p.chunks - line.chunk);
    const int count = min(line.count, chunks * kChannelwiseWalk);
    index += chunks;
    const ChannelwiseRun run_h = p.h.run[line.phase];
    const int channels = kChannels == 1 ? 1 : min(kChannels, p.channels - line.channel);
    const std::int64_t group = group_of(p, line.unit);
    const T* filter =
        operands.filter + group * p.channels * p.source_channels * p.taps + line.channel * p.filter_channel;
    float bias[kChannels] = {};
    if (operands.bias != nullptr) {
#pragma unroll
      for (int b = 0; b < kChannels; ++b) {
        if (b < channels) bias[b] = to_float(operands.bias[group * p.channels + line.channel + b]);
      }
    }
    T* to = operands.result + (line.unit * p.channels + line.channel) * result_plane +
            (static_cast<std::int64_t>(line.row) * p.w.result + line.column);
    const float* from = stage + line.stage;
    const auto load_taps = [&](const T* channel_filter) {
      if constexpr (kTapsH != 0) {
#pragma unroll
        for (int b = 0; b < kChannels; ++b) {
          if (b < channels) taps[b].load(p, channel_filter + b * p.filter_channel, run_h, run_w);
        }
      }
    };
    const auto add_source = [&](const T* channel_filter, const float* channel_from,
                                float(&sums)[kChannels][kChannelwiseWalk]) {
      if constexpr (kTapsH == 0) {
        add_any_taps<T, kChannels>(p, channel_filter, channels, run_h, run_w, channel_from, sums);
      } else {
        add_channel<kTapsH, kTapsW, kShift, kChannels>(p, taps, channel_from, sums);
      }
    };
    const bool has_taps = run_h.taps > 0, one_source = has_taps && p.source_channels == 1;
    if (one_source) load_taps(filter);
#pragma unroll 1
    for (int first = 0; first < count; first += kChannelwiseWalk) {
      float sums[kChannels][kChannelwiseWalk] = {};
      if (one_source) {
        add_source(filter, from, sums);
      } else if (has_taps) {
        const T* channel_filter = filter;
        const float* channel_from = from;
#pragma unroll 1
        for (int c = 0; c < p.source_channels; ++c) {
          load_taps(channel_filter);
          add_source(channel_filter, channel_from, sums);
          channel_filter += p.filter_source;
          channel_from += p.plane_pitch;
        }
      }
      bool lost = false;
#pragma unroll
      for (int b = 0; b < kChannels; ++b) {
        if (b < channels) {
          lost |= store_chunk(p, operands.activate, count - first, bias[b], sums[b], to + b * result_plane);
        }
      }
      if (lost) store_defined(p, operands, line, channels, first, min(count - first, kChannelwiseWalk), to);
      from += kChannelwiseWalk * p.step_pitch;
      to += kChannelwiseWalk * p.result_step;
    }
  }
}

/// Blocks per multiprocessor for which the registers of so many taps and sums leave room.
constexpr int blocks_per_multiprocessor(int taps, int channels) { return channels == 1 && taps <= 16 ? 3 : 2; }

template <class T, int kTapsH, int kTapsW, int kShift, int kChannels>
__global__ void __launch_bounds__(kChannelwiseThreads, blocks_per_multiprocessor(kTapsH* kTapsW, kChannels))
    gather_kernel(const __grid_constant__ ChannelwisePlan p, const GatherOperands<T> operands) {
  float* stage = reinterpret_cast<float*>(ptx::dynamic_smem());
  const ChannelwiseTile tile = channelwise_tile(p, static_cast<int>(blockIdx.x));
  const T* first = operands.source + tile.unit * p.unit_stride +
                   static_cast<std::int64_t>(tile.source_row) * p.w.source + tile.source_column;
  stage_tile(p, tile, operands.source, first, stage);
  finish_stage();
  __syncthreads();
  const auto thread_line = static_cast<int>(p.lane_divider.divide(threadIdx.x));
  if (thread_line >= p.lines) return;
  compute_lines<T, kTapsH, kTapsW, kShift, kChannels>(p, tile, operands, stage + stage_shift(p, first),
                                                      static_cast<int>(threadIdx.x) - thread_line * p.lanes,
                                                      thread_line);
}

template <class T>
using GatherKernel = void (*)(ChannelwisePlan, GatherOperands<T>);

template <class T, int kTapsH, int kTapsW>
GatherKernel<T> select_gather_shift(const ChannelwisePlan& p) {
  if (p.walk_shift == 1) return gather_kernel<T, kTapsH, kTapsW, 1, 1>;
  if constexpr (kTapsH > 2) {
    if (p.walk_shift == 2) return gather_kernel<T, kTapsH, kTapsW, 2, 1>;
  }
  return gather_kernel<T, kTapsH, kTapsW, 0, 1>;
}

/// For more than one channel at a time.
template <class T, int kTapsH, int kTapsW, int kShift>
GatherKernel<T> select_gather_channels(const ChannelwisePlan& p) {
  return p.channel_block == 2 ? gather_kernel<T, kTapsH, kTapsW, kShift, 2>
                              : gather_kernel<T, kTapsH, kTapsW, kShift, 4>;
}

/// The plan's kernel.
template <class T>
GatherKernel<T> select_gather(const ChannelwisePlan& p) {
  if (p.channel_block > 1) {
    switch (p.taps_h) {
      case 2: return select_gather_channels<T, 2, 2, 1>(p);
      case 3: return select_gather_channels<T, 3, 3, 1>(p);
      default: return select_gather_channels<T, 0, 0, 0>(p);
    }
  }
  switch (p.taps_h) {
    case 1:
      if (p.taps_w == 2) return gather_kernel<T, 1, 2, 1, 1>;
      if (p.taps_w == 4) return gather_kernel<T, 1, 4, 1, 1>;
      return p.taps_w == 8 ? gather_kernel<T, 1, 8, 1, 1> : gather_kernel<T, 1, 16, 1, 1>;
    case 2: return select_gather_shift<T, 2, 2>(p);
    case 3: return select_gather_shift<T, 3, 3>(p);
    case 4: return select_gather_shift<T, 4, 4>(p);
    case 5: return select_gather_shift<T, 5, 5>(p);
    case 7: return select_gather_shift<T, 7, 7>(p);
    default: return gather_kernel<T, 0, 0, 0, 1>;
  }
}

}  // namespace adjoint::cuda::channelwise

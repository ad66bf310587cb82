// conv and conv_transpose with few results a position (line/narrow/plan.h describes how the work is cut).
#pragma once

#include <adjoint/ops/conv/line/narrow/plan.h>
#include <adjoint/ops/conv/line/cuda/line.cuh>

#include <cstdint>

namespace adjoint::cuda::narrow {

using line::Operands;

/// Stages the filter values of `channels` source channels, by `taps`. `filter`: of the first of these channels.
template <class T>
__device__ __forceinline__ void stage_filter(const NarrowPlan& p, const T* filter, int channels, const int* taps,
                                             float* stage) {
  for (int i = static_cast<int>(threadIdx.x); i < p.filter_length(); i += kNarrowThreads) {
    const int tap = taps[i];
    const T* from = filter + max(tap, 0);
    float* to = stage + i;
#pragma unroll 1
    for (int c = 0; c < channels; ++c) {
      stage_element(to, from, tap >= 0, from);
      from += p.filter_source;
      to += p.filter_length();
    }
  }
}

/// The layout of a block's shared memory: the permanent part, then two stages.
struct Shared {
  int* sources;  // [element, or vector of the line]: places in a source plane, from the tile's first sample on, or -1
  int* taps;     // [offset][narrow_row]: places in the filter of source channel 0, or -1
  int* offsets;  // [offset]: from a position to its source in the line
  float* stages;
};

__device__ __forceinline__ Shared shared_of(const NarrowPlan& p) {
  int* sources = reinterpret_cast<int*>(ptx::dynamic_smem());
  int* taps = sources + p.length;
  return {sources, taps, taps + p.filter_length(), reinterpret_cast<float*>(sources + p.table_elements())};
}

/// The filter values of one offset, which all threads read: 16 bytes at a time.
template <int kResults>
__device__ __forceinline__ void load_filter(const float* row, float (&values)[narrow_row(kResults)]) {
  constexpr int kRow = narrow_row(kResults);
  if constexpr (kRow % 4 == 0) {
#pragma unroll
    for (int m = 0; m < kRow; m += 4) {
      const float4 four = *reinterpret_cast<const float4*>(row + m);
      values[m] = four.x;
      values[m + 1] = four.y;
      values[m + 2] = four.z;
      values[m + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int m = 0; m < kRow; ++m) values[m] = row[m];
  }
}

template <int kResults>
using Sums = float[kResults][narrow_positions(kResults)];

/// Adds the products of a stage's source channels. `source`: of the thread's first position.
template <int kResults>
__device__ __forceinline__ void add_stage(const NarrowPlan& p, const Shared& shared, const float* source,
                                          const float* filter, int channels, Sums<kResults>& sums) {
  constexpr int kPositions = narrow_positions(kResults), kRow = narrow_row(kResults);
  const int offsets = p.offsets();
#pragma unroll 1
  for (int c = 0; c < channels; ++c, source += p.length, filter += p.filter_length()) {
#pragma unroll 2
    for (int offset = 0; offset < offsets; ++offset) {
      const float* at = source + shared.offsets[offset];
      float values[kPositions], taps[kRow];
#pragma unroll
      for (int i = 0; i < kPositions; ++i) values[i] = at[32 * i];
      load_filter<kResults>(filter + offset * kRow, taps);
#pragma unroll
      for (int m = 0; m < kResults; ++m) {
#pragma unroll
        for (int i = 0; i < kPositions; ++i) sums[m][i] = fmaf(values[i], taps[m], sums[m][i]);
      }
    }
  }
}

/// Computes a thread's results again, by their definition. A product of zero, for a place outside the source or a tap
/// that a phase lacks, is NaN if the other factor is infinite, so this is done if a sum was NaN.
template <class T, int kResults>
__device__ __noinline__ void store_defined(const LinePlan& p, const LineTile& tile, const Operands<T>& operands,
                                           int first) {
#pragma unroll 1
  for (int i = 0; i < kResults * narrow_positions(kResults); ++i) {
    const int m = tile.first_result + i % kResults, n = first + 32 * (i / kResults);
    if (m >= p.group_results()) continue;
    const LineResult result = line_result(p, m);
    const line::ResultPlace to = line::find_results(p, tile, n);
    if (!line::has_result(p, to, result)) continue;
    const std::int64_t at =
        to.at + (static_cast<std::int64_t>(result.channel) * p.h.result + result.phase_h) * p.w.result + result.phase_w;
    LinePlace grid = line_place(p, n);
    grid.column += tile.column;
    const float sum = line::defined_sum(p, tile.group, operands, grid, result);
    line::store_result(operands, at, sum + line::bias_of(p, tile.group, operands, result.channel));
  }
}

/// Adds the bias to one result of a thread's positions, activates and stores. `places`: of the positions; `spare`: a
/// column of shared memory, kNarrowThreads apart, that only this thread uses.
template <class T, int kPositions>
__device__ __forceinline__ void store_result(const LinePlan& p, const LineTile& tile, const Operands<T>& operands,
                                             int first, int m, const line::ResultPlace (&places)[kPositions],
                                             float* spare, const float (&sums)[kPositions]) {
  const LineResult result = line_result(p, m);
  const float bias = line::bias_of(p, tile.group, operands, result.channel);
  const std::int64_t step =
      (static_cast<std::int64_t>(result.channel) * p.h.result + result.phase_h) * p.w.result + result.phase_w;
  if (operands.activate.is_none() && operands.linear == nullptr) {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      if (line::has_result(p, places[i], result)) operands.result[places[i].at + step] = from_float<T>(sums[i] + bias);
    }
    return;
  }
  // Keeps one copy of the activation's code for all positions.
#pragma unroll
  for (int i = 0; i < kPositions; ++i) spare[i * kNarrowThreads] = sums[i] + bias;
#pragma unroll 1
  for (int i = 0; i < kPositions; ++i) {
    const line::ResultPlace place = line::find_results(p, tile, first + 32 * i);
    if (line::has_result(p, place, result)) line::store_result(operands, place.at + step, spare[i * kNarrowThreads]);
  }
}

/// Stores all of a thread's results.
template <class T, int kResults>
__device__ __forceinline__ void store_results(const LinePlan& p, const LineTile& tile, const Operands<T>& operands,
                                              int first, float* spare, const Sums<kResults>& sums) {
  constexpr int kPositions = narrow_positions(kResults);
  line::ResultPlace places[kPositions];
#pragma unroll
  for (int i = 0; i < kPositions; ++i) places[i] = line::find_results(p, tile, first + 32 * i);
  bool lost = false;
#pragma unroll
  for (int j = 0; j < kResults; ++j) {
    const int m = tile.first_result + j;
    if (m < p.group_results()) store_result(p, tile, operands, first, m, places, spare, sums[j]);
#pragma unroll
    for (int i = 0; i < kPositions; ++i) lost |= sums[j][i] != sums[j][i];
  }
  if (lost) store_defined<T, kResults>(p, tile, operands, first);
}

/// For the block's results: the filter elements, for source channel 0, that an offset multiplies, in rows of
/// narrow_row().
template <int kResults>
__device__ __forceinline__ void fill_taps(const NarrowPlan& p, const LineTile& tile, int* taps) {
  constexpr int kRow = narrow_row(kResults);
  for (int i = static_cast<int>(threadIdx.x); i < p.filter_length(); i += kNarrowThreads) {
    const int offset = i / kRow, m = tile.first_result + i % kRow;
    const bool exists = offset < p.offsets() && i % kRow < kResults && m < p.group_results();
    taps[i] = exists ? line::filter_place(p, m, offset / p.w.offsets, offset % p.w.offsets) : -1;
  }
}

template <class T, int kResults>
__global__ void __launch_bounds__(kNarrowThreads, 2)
    narrow_kernel(const __grid_constant__ NarrowPlan p, const Operands<T> operands) {
  constexpr int kPositions = narrow_positions(kResults);
  const LineTile tile = line_tile(p, static_cast<int>(blockIdx.x));
  const Shared shared = shared_of(p);
  constexpr int kVector = 16 / sizeof(T);
  line::fill_sources<kNarrowThreads>(p, tile, operands.vectors ? kVector : 1, shared.sources);
  fill_taps<kResults>(p, tile, shared.taps);
  for (int i = static_cast<int>(threadIdx.x); i < p.offsets(); i += kNarrowThreads) {
    shared.offsets[i] = p.offset_place(i / p.w.offsets, i % p.w.offsets);
  }
  __syncthreads();

  const std::int64_t plane = static_cast<std::int64_t>(p.h.source) * p.w.source;
  const std::int64_t first_sample = line_place(p, tile.first).sample;
  const T* source = operands.source + (first_sample * p.groups + tile.group) * p.source_channels * plane;
  const T* filter = operands.filter + tile.group * p.filter_group;
  const auto stage_of = [&](int index) { return shared.stages + (index & 1) * p.stage_elements(); };
  const auto channels_of = [&](int index) {
    return min(p.stage_channels, p.source_channels - index * p.stage_channels);
  };
  const auto load_stage = [&](int index) {
    const int channels = channels_of(index);
    float* stage = stage_of(index);
    const T* from = source + index * p.stage_channels * plane;
    if (operands.vectors) {
      line::stage_source<kNarrowThreads, kVector>(p, from, channels, shared.sources, stage);
    } else {
      line::stage_source<kNarrowThreads, 1>(p, from, channels, shared.sources, stage);
    }
    stage_filter(p, filter + index * p.stage_channels * p.filter_source, channels, shared.taps,
                 stage + p.stage_channels * p.length);
    ptx::cp_async_commit();
  };

  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int first = warp * kPositions * 32 + lane;
  const int stages = (p.source_channels + p.stage_channels - 1) / p.stage_channels;
  Sums<kResults> sums = {};
  load_stage(0);
#pragma unroll 1
  for (int index = 0; index < stages; ++index) {
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (index + 1 < stages) load_stage(index + 1);
    const float* stage = stage_of(index);
    add_stage<kResults>(p, shared, stage + first, stage + p.stage_channels * p.length, channels_of(index), sums);
  }
  __syncthreads();
  store_results<T, kResults>(p, tile, operands, tile.first + first,
                             reinterpret_cast<float*>(ptx::dynamic_smem()) + threadIdx.x, sums);
}

template <class T>
using Kernel = void (*)(NarrowPlan, Operands<T>);

/// The plan's kernel.
template <class T>
Kernel<T> select(const NarrowPlan& p) {
  switch (p.results) {
    case 1: return narrow_kernel<T, 1>;
    case 2: return narrow_kernel<T, 2>;
    case 3: return narrow_kernel<T, 3>;
    case 4: return narrow_kernel<T, 4>;
    case 6: return narrow_kernel<T, 6>;
    case 9: return narrow_kernel<T, 9>;
    case 12: return narrow_kernel<T, 12>;
    default: return narrow_kernel<T, 16>;
  }
}

}  // namespace adjoint::cuda::narrow

// The parts shared by the kernels that treat a convolution as one line of positions (line/plan.h): the places that they
// read, and the results that they store.
#pragma once

#include <adjoint/ops/conv/line/plan.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/conv/base/cuda/stage_copy.cuh>

#include <cstdint>

namespace adjoint::cuda::line {

template <class T>
struct Operands {
  const T* source;
  const T* filter;
  const T* bias;  // or null
  T* result;
  T* linear;                 // or null: receives sum and bias before the activation
  Activate<float> activate;  // of sum and bias
  bool vectors;              // rows of the source begin at multiples of 16 bytes
};

/// The places of the tile's part of the line, `count` elements at a time: offsets in a source channel's plane, from the
/// tile's first sample on, or -1.
template <int kThreads>
__device__ __forceinline__ void fill_sources(const LinePlan& p, const LineTile& tile, int count, int* sources) {
  const int first_sample = line_place(p, tile.first).sample;
  const int sample = p.h.source * p.w.source * p.source_channels * p.groups;
  for (int i = static_cast<int>(threadIdx.x); i < p.length / count; i += kThreads) {
    const LinePlace place = line_place(p, tile.first + i * count);
    const int row = place.row + p.h.offset[0], column = place.column + tile.column + p.first_column;
    const bool inside = place.sample < p.batch && static_cast<unsigned>(row) < static_cast<unsigned>(p.h.source) &&
                        static_cast<unsigned>(column) < static_cast<unsigned>(p.w.source);
    sources[i] = inside ? (place.sample - first_sample) * sample + row * p.w.source + column : -1;
  }
}

/// Stages `channels` source channels of the tile's part of the line, kCount elements at a time, by `places`. `source`:
/// of the first channel, in the tile's first sample. Staged: T or float.
template <int kThreads, int kCount, class T, class Staged>
__device__ __forceinline__ void stage_source(const LinePlan& p, const T* source, int channels, const int* places,
                                             Staged* stage) {
  const int plane = p.h.source * p.w.source;
  for (int i = static_cast<int>(threadIdx.x); i < p.length / kCount; i += kThreads) {
    const int place = places[i];
    const T* from = source + max(place, 0);
    Staged* to = stage + i * kCount;
#pragma unroll 4
    for (int c = 0; c < channels; ++c) {
      const bool inside = place >= 0;
      if constexpr (kCount == 1) {
        stage_element(to, from, inside, source);
      } else {
        stage_vector(to, from, inside, source);
      }
      from += plane;
      to += p.length;
    }
  }
}

/// The filter element, for source channel 0, with which a group's result multiplies the source at an offset, or -1.
__device__ __forceinline__ int filter_place(const LinePlan& p, int m, int offset_h, int offset_w) {
  const LineResult result = line_result(p, m);
  const int tap_h = p.h.tap[result.phase_h][offset_h], tap_w = p.w.tap[result.phase_w][offset_w];
  return tap_h >= 0 && tap_w >= 0 ? static_cast<int>(result.channel * p.filter_channel) + tap_h * p.kernel_w + tap_w
                                  : -1;
}

/// A position's first result, which may be outside: phase 0 of channel 0.
struct ResultPlace {
  std::int64_t at;  // of the result's elements
  int row, column;
};

/// The first result of the position there.
__device__ __forceinline__ ResultPlace results_of(const LinePlan& p, std::int64_t group, const LinePlace& place) {
  const std::int64_t channel = (place.sample * static_cast<std::int64_t>(p.groups) + group) * p.channels;
  ResultPlace result;
  result.row = place.row * p.h.phases - p.h.shift;
  result.column = place.column * p.w.phases - p.w.shift;
  result.at = (channel * p.h.result + result.row) * p.w.result + result.column;
  return result;
}

__device__ __forceinline__ ResultPlace find_results(const LinePlan& p, const LineTile& tile, int n) {
  LinePlace place = line_place(p, n);
  if (place.sample >= p.batch || place.row >= p.h.positions || place.column >= p.tile_columns)
    return {0, -(1 << 30), 0};
  place.column += tile.column;
  return results_of(p, tile.group, place);
}

__device__ __forceinline__ bool has_row(const LinePlan& p, const ResultPlace& place, int phase_h) {
  return static_cast<unsigned>(place.row + phase_h) < static_cast<unsigned>(p.h.result);
}
__device__ __forceinline__ bool has_column(const LinePlan& p, const ResultPlace& place, int phase_w) {
  return static_cast<unsigned>(place.column + phase_w) < static_cast<unsigned>(p.w.result);
}
__device__ __forceinline__ bool has_result(const LinePlan& p, const ResultPlace& place, const LineResult& result) {
  return has_row(p, place, result.phase_h) && has_column(p, place, result.phase_w);
}

template <class T>
__device__ __forceinline__ float bias_of(const LinePlan& p, std::int64_t group, const Operands<T>& operands,
                                         int channel) {
  return operands.bias != nullptr ? to_float(operands.bias[group * p.channels + channel]) : 0.0F;
}

/// One result's sum by its definition, without products outside the source. `place`: of its position.
template <class T>
__device__ float defined_sum(const LinePlan& p, std::int64_t group, const Operands<T>& operands, const LinePlace& place,
                             const LineResult& result) {
  const std::int64_t plane = static_cast<std::int64_t>(p.h.source) * p.w.source;
  const T* source =
      operands.source + (place.sample * static_cast<std::int64_t>(p.groups) + group) * p.source_channels * plane;
  const T* filter = operands.filter + group * p.filter_group + result.channel * p.filter_channel;
  float sum = 0;
#pragma unroll 1
  for (int c = 0; c < p.source_channels; ++c, source += plane, filter += p.filter_source) {
#pragma unroll 1
    for (int i = 0; i < p.h.offsets; ++i) {
      const int row = place.row + p.h.offset[i], tap_h = p.h.tap[result.phase_h][i];
      if (tap_h < 0 || row < 0 || row >= p.h.source) continue;
#pragma unroll 1
      for (int j = 0; j < p.w.offsets; ++j) {
        const int column = place.column + p.w.offset[j], tap_w = p.w.tap[result.phase_w][j];
        if (tap_w < 0 || column < 0 || column >= p.w.source) continue;
        sum = fmaf(to_float(source[static_cast<std::int64_t>(row) * p.w.source + column]),
                   to_float(filter[tap_h * p.kernel_w + tap_w]), sum);
      }
    }
  }
  return sum;
}

/// The value to store for a sum and bias.
template <class T>
__device__ __forceinline__ void store_result(const Operands<T>& operands, std::int64_t at, float value) {
  if (operands.linear != nullptr) operands.linear[at] = from_float<T>(value);
  operands.result[at] = from_float<T>(operands.activate(value));
}

}  // namespace adjoint::cuda::line

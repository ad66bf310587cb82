// Depthwise conv_weight of channels_last tensors (channelwise/depthwise.h describes how the work is cut), in float32 on
// the ordinary cores. No sum depends on the grid's order.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/channelwise/depthwise.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/channelwise/cuda/depthwise/kernel.cuh>

#include <cstdint>

namespace adjoint::cuda::depthwise {

/// sums: [channel][slice][tap]. kColumns: taps of a thread. kSlides: a thread reads a row of the image once for its
/// taps and positions.
template <class T, int kColumns, bool kSlides>
__global__ void __launch_bounds__(kDepthwiseThreads)
    depthwise_weight_kernel(const __grid_constant__ DepthwiseWeightPlan plan, const T* image, const T* feature,
                            float* sums) {
  constexpr int kV = kPack<T>, kPositions = kDepthwisePositions;
  const DepthwisePlan& p = plan.walk;
  auto* const shares = reinterpret_cast<float*>(ptx::dynamic_smem());  // [tap and channel][thread]
  const int lanes = p.lanes(sizeof(T)), thread = static_cast<int>(threadIdx.x);
  const int row_of_threads = thread / lanes, lane = thread - row_of_threads * lanes;
  const int walk = row_of_threads / plan.jobs_of_block, walks = plan.walks(sizeof(T));
  const int job = static_cast<int>(blockIdx.z) * plan.jobs_of_block + row_of_threads % plan.jobs_of_block;
  const int channel = (static_cast<int>(blockIdx.y) * lanes + lane) * kV;
  const bool has_work = walk < walks && job < plan.jobs && channel < p.channels;
  std::int32_t column = job;
  const std::int32_t filter_row = plan.row_jobs.split(column);
  column *= kColumns;
  const int first_strip = static_cast<int>(blockIdx.x) * plan.slice_strips;
  const auto end = static_cast<int>(min(p.strips, static_cast<std::int64_t>(first_strip) + plan.slice_strips));
  float products[kColumns][kV] = {};
  ptx::wait_for_earlier_kernels();
#pragma unroll 1
  for (int strip = first_strip + walk; strip < end && has_work; strip += walks) {
    std::int32_t place = strip, row = p.strips_of_row.split(place);
    const std::int64_t feature_row = row;
    const std::int32_t sample = p.result_height.split(row);
    const int x = place * kPositions, y = row * p.stride[0] + p.first[0] + filter_row * p.between[0];
    if (static_cast<std::uint32_t>(y) >= static_cast<std::uint32_t>(p.height)) continue;
    const T* const image_row =
        image + (static_cast<std::int64_t>(sample) * p.height + y) * p.width * p.channels + channel;
    const T* const at = feature + feature_row * p.result_width * p.channels + channel;
    const int first_x = x * p.stride[1] + p.first[1] + column * p.between[1];
    // The window is the part of the image row that the strip's taps read: each place once, or one for each position and
    // tap.
    constexpr int kWindow = kSlides ? kColumns + kPositions - 1 : kColumns * kPositions;
    const auto window_x = [&](int w) {
      return kSlides ? first_x + w : first_x + w / kColumns * p.stride[1] + w % kColumns * p.between[1];
    };
    Pack<T, kV> window[kWindow];
#pragma unroll
    for (int w = 0; w < kWindow; ++w) window[w] = read(image_row, window_x(w), p.width, p.channels);
    float features[kPositions][kV];
#pragma unroll
    for (int position = 0; position < kPositions; ++position) {
      widen(read(at, x + position, p.result_width, p.channels), features[position]);
    }
#pragma unroll
    for (int w = 0; w < kWindow; ++w) {
      // A product with a zero from outside could be NaN.
      if (static_cast<std::uint32_t>(window_x(w)) >= static_cast<std::uint32_t>(p.width)) continue;
      float values[kV];
      widen(window[w], values);
#pragma unroll
      for (int position = 0; position < kPositions; ++position) {
        const int tap = kSlides ? w - position : w / kColumns == position ? w % kColumns : -1;
        if (tap < 0 || tap >= kColumns || x + position >= p.result_width) continue;
#pragma unroll
        for (int v = 0; v < kV; ++v) products[tap][v] += values[v] * features[position][v];
      }
    }
  }
#pragma unroll
  for (int tap = 0; tap < kColumns; ++tap) {
#pragma unroll
    for (int v = 0; v < kV; ++v) shares[(tap * kV + v) * kDepthwiseThreads + thread] = products[tap][v];
  }
  __syncthreads();
  // The block's channels, and the taps of each, one thread a sum: the loops have few instructions, which must be
  // fetched from memory.
  const int taps = p.taps(), job_taps = plan.jobs_of_block * kColumns;
#pragma unroll 1
  for (int i = thread; i < lanes * kV * job_taps; i += kDepthwiseThreads) {
    const int of_block = i / job_taps, of_job = i - of_block * job_taps, tap = of_job % kColumns;
    std::int32_t first = static_cast<int>(blockIdx.z) * plan.jobs_of_block + of_job / kColumns;
    const std::int32_t at_row = plan.row_jobs.split(first);
    const int at_column = first * kColumns + tap, at_channel = static_cast<int>(blockIdx.y) * lanes * kV + of_block;
    if (at_row >= p.kernel[0] || at_column >= p.kernel[1] || at_channel >= p.channels) continue;
    const float* const share =
        shares + (tap * kV + of_block % kV) * kDepthwiseThreads + of_job / kColumns * lanes + of_block / kV;
    float sum = 0.0F;
#pragma unroll 1
    for (int other = 0; other < walks; ++other) sum += share[other * plan.jobs_of_block * lanes];
    sums[(static_cast<std::int64_t>(at_channel) * plan.slices + blockIdx.x) * taps + at_row * p.kernel[1] + at_column] =
        sum;
  }
}

template <class T>
auto select_weight_kernel(const DepthwiseWeightPlan& plan) {
  if (plan.columns == 3) return depthwise_weight_kernel<T, 3, true>;
  if (plan.columns == 5) return depthwise_weight_kernel<T, 5, true>;
  if (plan.columns == 7) return depthwise_weight_kernel<T, 7, true>;
  return depthwise_weight_kernel<T, 4, false>;
}

}  // namespace adjoint::cuda::depthwise

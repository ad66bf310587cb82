// conv and conv_transpose with few results a position (few_results/plan.h describes how the work is cut). Products
// outside the source are not computed, so NaN and infinity spread as in the plain kernels.
#pragma once

#include <adjoint/ops/conv/few_results/plan.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::few_results {

template <class T>
struct GatherOperands {
  const T* source;
  const T* filter;
  const T* bias;  // or null
  T* result;
  T* linear;                 // or null: receives sum and bias before the activation
  float* partial;            // or null: receives the slices' sums, [sample and group][slice][channel][position]
  Activate<float> activate;  // of sum and bias
};

/// Adds the products of kAtOnce source channels, `channel_lanes` apart. `source`, `filter`: of the first of these
/// channels.
template <int kChannels, int kAtOnce, class T>
__device__ __forceinline__ void add_channels(const FewResultsPlan& p, const FewResultsPlace& place, const T* source,
                                             const T* filter, float (&sums)[kChannels]) {
  const int source_step = p.channel_lanes * p.h.source * p.w.source, filter_step = p.channel_lanes * p.filter_source;
  const FewResultsRun &rows = p.h.run[place.residue_h], &columns = p.w.run[place.residue_w];
#pragma unroll 1
  for (int i = 0, row = place.source_row; i < rows.taps; ++i, row += p.h.source_step) {
    if (static_cast<unsigned>(row) >= static_cast<unsigned>(p.h.source)) continue;
    const T* from = source + row * p.w.source;
    const T* by = filter + (rows.tap + i * p.h.tap_step) * p.kernel_w + columns.tap;
    // A column outside is replaced by another one, so that the loads of several taps are in flight together.
#pragma unroll 2
    for (int j = 0; j < columns.taps; ++j) {
      const int column = place.source_column + j * p.w.source_step;
      const bool inside = static_cast<unsigned>(column) < static_cast<unsigned>(p.w.source);
      const T* at = from + (inside ? column : 0);
      float values[kAtOnce], weights[kChannels][kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) values[u] = to_float(at[u * source_step]);
#pragma unroll
      for (int m = 0; m < kChannels; ++m) {
        // A channel past the result's last one repeats it; its sum is not stored.
        const T* of = by + j * p.w.tap_step + min(m, p.channels - 1) * p.filter_channel;
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) weights[m][u] = to_float(of[u * filter_step]);
      }
#pragma unroll
      for (int m = 0; m < kChannels; ++m) {
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          if (inside) sums[m] = fmaf(values[u], weights[m][u], sums[m]);
        }
      }
    }
  }
}

/// Adds up the sums of the block's channel lanes; the first lane gets the total.
template <int kChannels>
__device__ __forceinline__ void add_channel_lanes(const FewResultsPlan& p, int channel_lane, float* shared,
                                                  float (&sums)[kChannels]) {
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int half = p.channel_lanes / 2; half > 0; half /= 2) {
    const int distance = half * p.lanes;
    if (channel_lane >= half && channel_lane < 2 * half) {
#pragma unroll
      for (int m = 0; m < kChannels; ++m) shared[m * kFewThreads + thread - distance] = sums[m];
    }
    __syncthreads();
    if (channel_lane < half) {
#pragma unroll
      for (int m = 0; m < kChannels; ++m) sums[m] += shared[m * kFewThreads + thread];
    }
    __syncthreads();
  }
}

template <class T, int kChannels>
__global__ void __launch_bounds__(kFewThreads)
    gather_kernel(const __grid_constant__ FewResultsPlan p, const GatherOperands<T> operands) {
  __shared__ float shared[kChannels * kFewThreads];
  int index = static_cast<int>(blockIdx.x);
  const int tile = index % p.tiles;
  index /= p.tiles;
  const int slice = index % p.slices, group = index / p.slices;
  const int thread = static_cast<int>(threadIdx.x);
  const int channel_lane = thread / p.lanes, n = tile * p.lanes + thread % p.lanes;
  const FewResultsPlace place = few_results_place(p, min(n, p.total - 1));
  const bool exists = n < p.total && place.row < p.h.result && place.column < p.w.result;

  float sums[kChannels] = {};
  if (exists) {
    const int plane = p.h.source * p.w.source;
    const int end = min(p.source_channels, (slice + 1) * p.slice_channels);
    int channel = slice * p.slice_channels + channel_lane;
    const T* source = operands.source + (place.sample * p.groups + group) * p.source_channels * plane;
    const T* filter = operands.filter + group * p.filter_group;
    const auto add = [&](auto at_once) {
      constexpr int kAtOnce = decltype(at_once)::value;
#pragma unroll 1
      for (; channel + (kAtOnce - 1) * p.channel_lanes < end; channel += kAtOnce * p.channel_lanes) {
        float parts[kChannels] = {};  // so that errors of long sums stay small
        add_channels<kChannels, kAtOnce>(p, place, source + channel * plane, filter + channel * p.filter_source, parts);
#pragma unroll
        for (int m = 0; m < kChannels; ++m) sums[m] += parts[m];
      }
    };
    if constexpr (kChannels == 1) add(std::integral_constant<int, 8>{});
    add(std::integral_constant<int, 4>{});
    add(std::integral_constant<int, 1>{});
  }
  add_channel_lanes(p, channel_lane, shared, sums);
  if (channel_lane > 0 || !exists) return;

  const int plane = p.h.result * p.w.result, at = place.row * p.w.result + place.column;
  const std::int64_t image = place.sample * p.groups + group;
#pragma unroll
  for (int m = 0; m < kChannels; ++m) {
    if (m >= p.channels) break;
    if (operands.partial != nullptr) {
      operands.partial[((image * p.slices + slice) * p.channels + m) * plane + at] = sums[m];
      continue;
    }
    const float bias = operands.bias != nullptr ? to_float(operands.bias[group * p.channels + m]) : 0.0F;
    const std::int64_t to = (image * p.channels + m) * plane + at;
    if (operands.linear != nullptr) operands.linear[to] = from_float<T>(sums[m] + bias);
    operands.result[to] = from_float<T>(operands.activate(sums[m] + bias));
  }
}

template <class T>
using GatherKernel = void (*)(FewResultsPlan, GatherOperands<T>);

/// The plan's kernel.
template <class T>
GatherKernel<T> select_gather(const FewResultsPlan& p) {
  return p.channels == 1 ? gather_kernel<T, 1> : p.channels == 2 ? gather_kernel<T, 2> : gather_kernel<T, 4>;
}

}  // namespace adjoint::cuda::few_results

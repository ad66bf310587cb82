// Depthwise conv of channels_last tensors (channelwise/depthwise.h describes how the work is cut), in float32 on the
// ordinary cores.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/channelwise/depthwise.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::depthwise {

template <class T>
struct Operands {
  const T *source, *filter, *bias;  // bias: may be null
  T* result;
  Activate<float> activate;
};

template <class T>
inline constexpr int kPack = DepthwisePlan::pack(sizeof(T));

template <class T>
__device__ __forceinline__ void widen(const Pack<T, kPack<T>>& from, float (&to)[kPack<T>]) {
#pragma unroll
  for (int v = 0; v < kPack<T>; ++v) to[v] = to_float(from.values[v]);
}

/// A pack of channels of a row of one sample; zeros if the position is outside it. `row`: its first position's.
template <class T>
__device__ __forceinline__ Pack<T, kPack<T>> read(const T* row, std::int32_t x, std::int32_t width,
                                                  std::int32_t channels) {
  using Read = Pack<T, kPack<T>>;
  if (static_cast<std::uint32_t>(x) < static_cast<std::uint32_t>(width)) {
    return *reinterpret_cast<const Read*>(row + static_cast<std::int64_t>(x) * channels);
  }
  Read zeros;
#pragma unroll
  for (int v = 0; v < kPack<T>; ++v) zeros.values[v] = from_float<T>(0.0F);
  return zeros;
}

/// The filters of the block's channels: [tap][channel].
template <class T>
__device__ __forceinline__ void bring_filter(const DepthwisePlan& p, const T* filter, int first, int channels,
                                             float* filters) {
  const int taps = p.taps();
  for (int i = static_cast<int>(threadIdx.x); i < taps * channels; i += kDepthwiseThreads) {
    const int tap = i / channels, channel = first + i - tap * channels, given = p.turned ? taps - 1 - tap : tap;
    filters[i] = channel < p.channels ? to_float(filter[static_cast<std::int64_t>(channel) * taps + given]) : 0.0F;
  }
}

/// kColumns: the filter's, if a thread reads a row of the source once for all its taps and positions; 0 for any filter.
template <class T, int kColumns>
__global__ void __launch_bounds__(kDepthwiseThreads)
    depthwise_kernel(const __grid_constant__ DepthwisePlan p, const __grid_constant__ Operands<T> operands) {
  constexpr int kV = kPack<T>, kPositions = kDepthwisePositions;
  constexpr int kWindow = kColumns > 0 ? kColumns + kPositions - 1 : 1;
  auto* const filters = reinterpret_cast<float*>(ptx::dynamic_smem());
  const int lanes = p.lanes(sizeof(T)), of_block = lanes * kV, thread = static_cast<int>(threadIdx.x);
  const int row_of_threads = thread / lanes, lane = thread - row_of_threads * lanes, rows = kDepthwiseThreads / lanes;
  const int first_channel = static_cast<int>(blockIdx.y) * of_block, channel = first_channel + lane * kV;
  ptx::wait_for_earlier_kernels();
  bring_filter(p, operands.filter, first_channel, of_block, filters);
  __syncthreads();
  if (row_of_threads >= rows || channel >= p.channels) return;
  float bias[kV] = {};
  if (operands.bias != nullptr) {
#pragma unroll
    for (int v = 0; v < kV; ++v) bias[v] = to_float(operands.bias[channel + v]);
  }
#pragma unroll 1
  for (std::int64_t strip = static_cast<std::int64_t>(blockIdx.x) * rows + row_of_threads; strip < p.strips;
       strip += static_cast<std::int64_t>(gridDim.x) * rows) {
    auto place = static_cast<std::int32_t>(strip);
    std::int32_t row = p.strips_of_row.split(place);
    const std::int64_t result_row = row;
    const std::int32_t sample = p.result_height.split(row);
    const int x = place * kPositions, first_y = row * p.stride[0] + p.first[0], first_x = x * p.stride[1] + p.first[1];
    const T* const from =
        operands.source + static_cast<std::int64_t>(sample) * p.height * p.width * p.channels + channel;
    float sums[kPositions][kV] = {};
#pragma unroll 1
    for (int i = 0; i < p.kernel[0]; ++i) {
      const int y = first_y + i * p.between[0];
      if (static_cast<std::uint32_t>(y) >= static_cast<std::uint32_t>(p.height)) continue;
      const T* const source_row = from + static_cast<std::int64_t>(y) * p.width * p.channels;
      const float* const weights = filters + i * p.kernel[1] * of_block + lane * kV;
      if constexpr (kColumns > 0) {
        Pack<T, kV> window[kWindow];
#pragma unroll
        for (int w = 0; w < kWindow; ++w) window[w] = read(source_row, first_x + w, p.width, p.channels);
#pragma unroll
        for (int w = 0; w < kWindow; ++w) {
          float values[kV];
          widen(window[w], values);
#pragma unroll
          for (int position = 0; position < kPositions; ++position) {
            const int tap = w - position;
            if (tap < 0 || tap >= kColumns) continue;
#pragma unroll
            for (int v = 0; v < kV; ++v) sums[position][v] += values[v] * weights[tap * of_block + v];
          }
        }
      } else {
#pragma unroll 1
        for (int tap = 0; tap < p.kernel[1]; ++tap) {
          Pack<T, kV> packs[kPositions];
#pragma unroll
          for (int position = 0; position < kPositions; ++position) {
            packs[position] =
                read(source_row, first_x + position * p.stride[1] + tap * p.between[1], p.width, p.channels);
          }
#pragma unroll
          for (int position = 0; position < kPositions; ++position) {
            float values[kV];
            widen(packs[position], values);
#pragma unroll
            for (int v = 0; v < kV; ++v) sums[position][v] += values[v] * weights[tap * of_block + v];
          }
        }
      }
    }
    T* const to = operands.result + (result_row * p.result_width + x) * p.channels + channel;
    operands.activate.visit([&](const auto& f) {
#pragma unroll
      for (int position = 0; position < kPositions; ++position) {
#pragma unroll
        for (int v = 0; v < kV; ++v) sums[position][v] = f(sums[position][v] + bias[v]);
      }
    });
#pragma unroll
    for (int position = 0; position < kPositions; ++position) {
      if (x + position >= p.result_width) continue;
      Pack<T, kV> rounded;
#pragma unroll
      for (int v = 0; v < kV; ++v) rounded.values[v] = from_float<T>(sums[position][v]);
      *reinterpret_cast<Pack<T, kV>*>(to + static_cast<std::int64_t>(position) * p.channels) = rounded;
    }
  }
}

template <class T>
auto select_kernel(const DepthwisePlan& p) {
  if (p.slides() && p.kernel[1] == 3) return depthwise_kernel<T, 3>;
  if (p.slides() && p.kernel[1] == 5) return depthwise_kernel<T, 5>;
  if (p.slides() && p.kernel[1] == 7) return depthwise_kernel<T, 7>;
  return depthwise_kernel<T, 0>;
}

}  // namespace adjoint::cuda::depthwise

// Puts the channels of conv_weight's results last, as a channels_last filter has them, and adds up slices of their
// sums.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/sums/taps.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::pipeline_weight {

inline constexpr int kChannelVector = 4;

/// [tap][slice][filter and channel], in float32, to [filter][tap][channel]: a thread's kChannelVector neighbours of tap
/// blockIdx.y stay neighbours.
template <class T>
__global__ void __launch_bounds__(kGatherThreads)
    gather_channels_kernel(const __grid_constant__ TapGather g, const __grid_constant__ Divider channels,
                           const float* from, T* to) {
  ptx::wait_for_earlier_kernels();
  const std::int64_t place =
      (static_cast<std::int64_t>(blockIdx.x) * kGatherThreads + static_cast<int>(threadIdx.x)) * kChannelVector;
  if (place >= g.count) return;
  using Read = Pack<float, kChannelVector>;
  const auto tap = static_cast<std::int64_t>(blockIdx.y);
  from += tap * g.tap_stride + place;
  Read sums = *reinterpret_cast<const Read*>(from);
#pragma unroll 4
  for (int slice = 1; slice < g.slices; ++slice) {
    const Read more = *reinterpret_cast<const Read*>(from + slice * g.slice_stride);
#pragma unroll
    for (int i = 0; i < kChannelVector; ++i) sums.values[i] += more.values[i];
  }
  auto channel = static_cast<std::int32_t>(place);
  const std::int32_t filter = channels.split(channel);
  Pack<T, kChannelVector> rounded;
#pragma unroll
  for (int i = 0; i < kChannelVector; ++i) rounded.values[i] = from_float<T>(sums.values[i]);
  const std::int64_t at = (static_cast<std::int64_t>(filter) * g.taps.divisor() + tap) * channels.divisor() + channel;
  *reinterpret_cast<Pack<T, kChannelVector>*>(to + at) = rounded;
}

}  // namespace adjoint::cuda::pipeline_weight

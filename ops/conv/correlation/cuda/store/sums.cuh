// Writes float32 sums of the tensor-core kernels of conv and conv_transpose straight from registers, if a row has one
// phase, or 2, 4 or 8. A lane's sums of a position are neighbouring pixels, or two lanes exchange some so that they
// are, and the eight lanes that hold a column hold neighbouring positions. Stores therefore cover whole sectors, and no
// warp waits for shared memory.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/correlation/cuda/store/store.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// Writes a lane's sums of one position, with their bias, each to its channel: to `to`, the place of its first column's
/// first pixel, and to the planes after it, as far as there are channels. `sums`: from those of the position on;
/// `biases`: of the lane's columns.
template <int kLog2Phases, int kColumns>
__device__ __forceinline__ void store_position(const float* sums, const float* biases, float* to, std::int64_t plane,
                                               int channels_left, int lane) {
  // The lane's two columns of the block-th eight.
  const auto two = [&](int block, float(&values)[2]) {
    const Pack<float, 2> bias = *reinterpret_cast<const Pack<float, 2>*>(biases + 8 * block);
#pragma unroll
    for (int i = 0; i < 2; ++i) values[i] = sums[4 * block + i] + bias.values[i];
  };
  if constexpr (kLog2Phases == 0) {
#pragma unroll
    for (int block = 0; block < kColumns / 8; ++block) {
      float values[2];
      two(block, values);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (8 * block + i < channels_left) to[i * plane] = values[i];
      }
      to += 8 * plane;
    }
  } else {
    constexpr int kChannels = 16 >> kLog2Phases;  // of eight columns of either half
#pragma unroll
    for (int block = 0; block < kColumns / 16; ++block) {
      float lower[2], upper[2];
      two(block, lower);
      two(block + kColumns / 16, upper);
      if constexpr (kLog2Phases == 1) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (8 * block + i < channels_left)
            *reinterpret_cast<Pack<float, 2>*>(to + i * plane) = {{lower[i], upper[i]}};
        }
      } else if constexpr (kLog2Phases == 2) {
        if (4 * block < channels_left)
          *reinterpret_cast<Pack<float, 4>*>(to) = {{lower[0], lower[1], upper[0], upper[1]}};
      } else {
        // With eight phases two lanes have four each, two lower and two upper ones: the first of them gets the lower
        // ones.
        const bool second = lane % 2 != 0;
        float others[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) others[i] = __shfl_xor_sync(0xffffffff, second ? lower[i] : upper[i], 1);
        Pack<float, 4> pixels;
        pixels.values[0] = second ? others[0] : lower[0];
        pixels.values[1] = second ? others[1] : lower[1];
        pixels.values[2] = second ? upper[0] : others[0];
        pixels.values[3] = second ? upper[1] : others[1];
        if (2 * block < channels_left) *reinterpret_cast<Pack<float, 4>*>(to) = pixels;
      }
      to += kChannels * plane;
    }
  }
}

/// Stores a warp's sums. kApart: the warp's positions of an m-tile are 64 from those of the next, else they follow each
/// other.
template <int kLog2Phases, bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void store_phases(const CorrelationPlan& p, const CorrelationWork& work, float* out,
                                             const float (&sums)[kMTiles][kColumns / 2], const float* biases,
                                             int first_m, int lane) {
  constexpr int kSegments = kLog2Phases == 0 ? 1 : 2, kLog2Half = kLog2Phases == 0 ? 0 : kLog2Phases - 1;
  const std::int64_t plane = static_cast<std::int64_t>(p.out_h) * p.out_w;
  const int channel = ((work.tile_in_class * (kColumns / kSegments)) + 2 * (lane % 4)) >> kLog2Half;
  const int pixel = kLog2Phases == 3 ? lane % 2 * 4 : 0;
#pragma unroll
  for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const CorrelationPosition q =
          correlation_position<kApart>(p, work, first_m + (kApart ? 64 : 16) * j + 8 * half + lane / 4);
      const std::int64_t n = work.n + q.n;
      const int h = (work.h + q.h) * p.out_stride_h + work.class_index;
      const int w = ((work.w + q.w) << kLog2Phases) + pixel;
      const bool inside = n < p.batch && h < p.out_h && w < p.out_w;
      float* const to = out + ((n * p.groups + work.group) * p.n_channels + channel) * plane +
                        static_cast<std::int64_t>(h) * p.out_w + w;
      store_position<kLog2Phases, kColumns>(sums[j] + 2 * half, biases + 2 * (lane % 4), to, plane,
                                            inside ? p.n_channels - channel : 0, lane);
    }
  }
}

/// Dispatches on the phases of a row.
template <bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void store_sums(const CorrelationPlan& p, const CorrelationWork& work, float* out,
                                           const float (&sums)[kMTiles][kColumns / 2], const float* biases, int first_m,
                                           int lane) {
  by_phases(p.out_stride_w, [&]<int kLog2Phases>() {
    store_phases<kLog2Phases, kApart, kColumns, kMTiles>(p, work, out, sums, biases, first_m, lane);
  });
}

}  // namespace adjoint::cuda::correlation

// Puts samples behind positions, for conv_weight: [sample][channel][row][column] to [channel][residue of rows][of
// columns][block of rows][of columns][sample]. Both sides are read and written along their rows, through a tile in
// shared memory.
#pragma once

#include <adjoint/ops/conv/rearranged_plan.h>

#include <cstdint>

namespace adjoint::cuda::rearranged {

inline constexpr int kSamplesThreads = 256;

/// T: an unsigned integer of the elements' size.
template <class T>
__global__ void __launch_bounds__(kSamplesThreads)
    samples_last_kernel(const __grid_constant__ SamplesLast s, const T* __restrict__ from, T* __restrict__ to) {
  constexpr int kSide = kSamplesTile, kPerWord = 4 / sizeof(T), kWarps = kSamplesThreads / 32;
  constexpr int kPitch = kSide + kPerWord;  // an odd number of words: lanes that write one sample's are in all banks
  alignas(4) __shared__ T tile[kSide * kPitch];
  __shared__ int sources[kSide];  // of positions, in a plane; negative outside
  int position_tile = static_cast<int>(blockIdx.x), channel = s.position_tiles.split(position_tile);
  const int sample_tile = s.channel_count.split(channel);
  const std::int64_t first_sample = std::int64_t{sample_tile} * kSide;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const auto positions = static_cast<int>(s.positions()), first = position_tile * kSide;
  if (thread < kSide) {
    int w = first + thread, h = s.blocks_w.split(w), column = s.blocks_h.split(h);
    const int row = s.residues_w.split(column);
    const std::int64_t at_h = h * s.stride[0] + row - s.padding[0], at_w = w * s.stride[1] + column - s.padding[1];
    const bool inside =
        first + thread < positions && at_h >= 0 && at_h < s.extents[0] && at_w >= 0 && at_w < s.extents[1];
    sources[thread] = inside ? static_cast<int>(at_h * s.extents[1] + at_w) : -1;
  }
  __syncthreads();
  const std::int64_t plane = s.extents[0] * s.extents[1];
  const int source[2] = {sources[lane], sources[lane + 32]};
#pragma unroll
  for (int i = 0; i < kSide / kWarps; ++i) {
    const int n = warp + i * kWarps;
    const T* const sample = from + ((first_sample + n) * s.channels + channel) * plane;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool inside = first_sample + n < s.samples && source[half] >= 0;
      tile[(lane + 32 * half) * kPitch + n] = inside ? sample[source[half]] : T{0};
    }
  }
  __syncthreads();
  const std::int64_t out = (std::int64_t{channel} * positions + first) * s.padded_samples + first_sample;
#pragma unroll
  for (int i = 0; i < kSide / kWarps; ++i) {
    const int position = warp + i * kWarps;
#pragma unroll
    for (int j = 0; j < kSide / (32 * kPerWord); ++j) {
      const int n = (lane + 32 * j) * kPerWord;
      if (first + position >= positions || first_sample + n >= s.padded_samples) continue;
      *reinterpret_cast<std::uint32_t*>(to + out + position * s.padded_samples + n) =
          *reinterpret_cast<const std::uint32_t*>(tile + position * kPitch + n);
    }
  }
}

}  // namespace adjoint::cuda::rearranged

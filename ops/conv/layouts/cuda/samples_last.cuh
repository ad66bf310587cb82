// Puts samples behind positions, for conv_weight: [sample][channel][row][column] to [channel][residue of rows][of
// columns][block of rows][of columns][sample]. Both sides are read and written along their rows, through a tile in
// shared memory made of vectors of 16 bytes: samples of one position.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/layouts/samples_last.h>

#include <cstdint>

namespace adjoint::cuda::rearranged {

inline constexpr int kSamplesThreads = 128;

/// The place of a position in a plane; negative outside.
__device__ __forceinline__ int source_of(const SamplesLast& s, int position) {
  if (position >= static_cast<int>(s.positions())) return -1;
  if (s.stride[0] == 1 && s.stride[1] == 1) return position;
  int w = position, h = s.blocks_w.split(w), column = s.blocks_h.split(h);
  const int row = s.residues_w.split(column);
  const auto extent_h = static_cast<int>(s.extents[0]), extent_w = static_cast<int>(s.extents[1]);
  const int at_h = h * static_cast<int>(s.stride[0]) + row - static_cast<int>(s.padding[0]);
  const int at_w = w * static_cast<int>(s.stride[1]) + column - static_cast<int>(s.padding[1]);
  return at_h >= 0 && at_h < extent_h && at_w >= 0 && at_w < extent_w ? at_h * extent_w + at_w : -1;
}

/// The place of a vector in a tile with kVectors vectors a position: eight neighbouring positions' vectors of one index
/// fall into all banks, and so do eight neighbours of the output.
template <int kVectors>
constexpr __device__ unsigned vector_place(unsigned position, unsigned vector) {
  constexpr unsigned kTurns = kVectors < 8 ? kVectors : 8;
  return position * kVectors + (vector ^ (position / (8 / kTurns) % kTurns));
}

/// Reads a thread's vectors of a position; other threads have the vectors in between. Only the first `left` samples are
/// read, and the rest are zeros; kWhole: all samples are there.
template <bool kWhole, int kSharers, class T, int kOwnVectors, int kVector>
__device__ __forceinline__ void read_samples(const T* __restrict__ next, int step, int left,
                                             T (&values)[kOwnVectors][kVector]) {
#pragma unroll
  for (int i = 0; i < kOwnVectors; ++i) {
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      values[i][j] = kWhole || i * kSharers * kVector + j < left ? *next : T{0};
      next += step;
    }
    next += std::int64_t{(kSharers - 1) * kVector} * step;
  }
}

/// T: an unsigned integer of the elements' size. kSamples: samples of a tile.
template <class T, int kSamples>
__global__ void __launch_bounds__(kSamplesThreads)
    samples_last_kernel(const __grid_constant__ SamplesLast s, const T* __restrict__ from, T* __restrict__ to) {
  using Words = Pack<std::uint32_t, 4>;
  constexpr int kPerWord = 4 / sizeof(T), kVector = 16 / sizeof(T);
  constexpr int kPositions = kSamplesTile / kSamples, kVectors = kSamples / kVector;     // of a position
  constexpr int kOwn = kPositions > kSamplesThreads ? kPositions / kSamplesThreads : 1;  // positions of a thread
  constexpr int kSharers = kOwn * kSamplesThreads / kPositions;  // threads that share a position
  constexpr int kOwnVectors = kVectors / kSharers;
  __shared__ Words tile_vectors[kSamplesTile / kVector];  // (kPositions, kVectors), at vector_place()
  const auto thread = static_cast<int>(threadIdx.x), samples = static_cast<int>(s.samples);
  const SamplesTile tile = samples_tile(s, static_cast<int>(blockIdx.x));
  const auto plane = static_cast<int>(s.extents[0] * s.extents[1]), step = static_cast<int>(s.channels) * plane;
  const int first_vector = thread / kPositions, first_sample = tile.sample + first_vector * kVector;
  T values[kOwn][kOwnVectors][kVector];  // all loads are in flight before the first is used
  const T* const first = from + (std::int64_t{first_sample} * step + tile.channel * plane);
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const int source = source_of(s, tile.position + thread % kPositions + own * kSamplesThreads);
    if (source >= 0 && samples - tile.sample >= kSamples) {
      read_samples<true, kSharers>(first + source, step, 0, values[own]);
    } else {
      read_samples<false, kSharers>(first + source, step, source < 0 ? 0 : samples - first_sample, values[own]);
    }
  }
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
#pragma unroll
    for (int i = 0; i < kOwnVectors; ++i) {
      Words words{};
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        words.values[j / kPerWord] |= std::uint32_t{values[own][i][j]} << 32 / kPerWord * (j % kPerWord);
      tile_vectors[vector_place<kVectors>(thread % kPositions + own * kSamplesThreads, first_vector + i * kSharers)] =
          words;
    }
  }
  __syncthreads();
  constexpr int kStep = kSamplesThreads / kVectors;  // positions
  static_assert(kStep % 8 == 0, "so many positions on, places are alike");
  const auto positions = static_cast<int>(s.positions()), padded_samples = static_cast<int>(s.padded_samples);
  const int position = thread / kVectors, vector = thread % kVectors, n = tile.sample + vector * kVector;
  const int end = n < padded_samples ? positions - tile.position : 0;  // end of the positions that exist
  const Words* const staged = tile_vectors + vector_place<kVectors>(position, vector);
  T* out = to + ((std::int64_t{tile.channel} * positions + tile.position + position) * padded_samples + n);
#pragma unroll
  for (int i = 0; i < kPositions / kStep; ++i) {
    if (position + i * kStep < end) *reinterpret_cast<Words*>(out) = staged[i * kStep * kVectors];
    out += std::int64_t{kStep} * padded_samples;
  }
}

/// The kernel of the plan's tiles.
template <class T>
auto samples_last_kernel_of(const SamplesLast& s) {
  switch (s.log2_tile_samples) {
    case 3: return samples_last_kernel<T, 8>;
    case 4: return samples_last_kernel<T, 16>;
    case 5: return samples_last_kernel<T, 32>;
    default: return samples_last_kernel<T, 64>;
  }
}

}  // namespace adjoint::cuda::rearranged

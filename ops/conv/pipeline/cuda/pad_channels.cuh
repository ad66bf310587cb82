// Copies rows of channels to rows of a multiple of 16 bytes, filled up with zeros, or back. A thread copies the
// channels of one such 16 bytes.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <cstdint>

namespace adjoint::cuda::pipeline {

inline constexpr int kPadThreads = 256;

/// Unit: an unsigned integer of an element's size. `vectors`: of a padded row.
template <class Unit>
__global__ void __launch_bounds__(kPadThreads)
    pad_channels_kernel(std::int64_t rows, int channels, int vectors, const Unit* from, Unit* padded) {
  constexpr int kVector = 16 / sizeof(Unit);
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kPadThreads + threadIdx.x, row = index / vectors;
  const int first = static_cast<int>(index - row * vectors) * kVector;
  ptx::wait_for_earlier_kernels();
  if (row >= rows) return;
  Pack<Unit, kVector> vector{};
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (first + i < channels) vector.values[i] = from[row * channels + first + i];
  }
  *reinterpret_cast<Pack<Unit, kVector>*>(padded + index * kVector) = vector;
}

template <class Unit>
__global__ void __launch_bounds__(kPadThreads)
    crop_channels_kernel(std::int64_t rows, int channels, int vectors, const Unit* padded, Unit* to) {
  constexpr int kVector = 16 / sizeof(Unit);
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kPadThreads + threadIdx.x, row = index / vectors;
  const int first = static_cast<int>(index - row * vectors) * kVector;
  ptx::wait_for_earlier_kernels();
  if (row >= rows) return;
  const auto vector = *reinterpret_cast<const Pack<Unit, kVector>*>(padded + index * kVector);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (first + i < channels) to[row * channels + first + i] = vector.values[i];
  }
}

}  // namespace adjoint::cuda::pipeline

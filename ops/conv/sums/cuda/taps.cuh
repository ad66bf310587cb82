// Puts the taps of conv_weight's results last: [tap][slice][filter and channel], in float32 if there are slices, to
// [filter and channel][tap]. A block of threads reorders a run of filters and channels in shared memory: lanes read
// vectors of neighbouring taps, so that they write side by side there. Threads that a short run leaves idle add up some
// of the slices of another one's results.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/sums/taps.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::tapwise {

/// T: an element of the filter. From: of results, float or T. kVector: results of one access.
template <class T, class From, int kVector>
__global__ void __launch_bounds__(kGatherThreads)
    gather_taps_kernel(const __grid_constant__ TapGather g, const From* from, T* to, bool writes_vectors) {
  constexpr int kWritten = 16 / sizeof(T);
  alignas(16) __shared__ T ordered[kGatherBytes / sizeof(T)];
  ptx::wait_for_earlier_kernels();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * g.run;
  const int run = static_cast<int>(min(g.count - first, static_cast<std::int64_t>(g.run)));
  const auto taps = static_cast<int>(g.taps.divisor());
  from += first;
  to += first * taps;
  const int thread = static_cast<int>(threadIdx.x);
  const int vectors = run / kVector * taps;
  // Threads that share a vector's slices: the more there are, the fewer slices a thread reads one after the other.
  const int most = g.slices > 1 ? kGatherThreads / (g.run / kVector * taps) : 1;
  const int lanes = max(1, min(most, g.slices));
  if (lanes > 1) {
    __shared__ Pack<float, kVector> shares[kGatherThreads];
    const int lane = thread / vectors, number = thread - lane * vectors;
    int tap = number;
    const int place = g.taps.split(tap) * kVector;
    float sums[kVector] = {};
    if (lane < lanes) {
      const From* const at = from + tap * g.tap_stride + place;
#pragma unroll 4
      for (int slice = lane; slice < g.slices; slice += lanes) {
        const auto more = *reinterpret_cast<const Pack<From, kVector>*>(at + slice * g.slice_stride);
#pragma unroll
        for (int i = 0; i < kVector; ++i) sums[i] += to_float(more.values[i]);
      }
#pragma unroll
      for (int i = 0; i < kVector; ++i) shares[thread].values[i] = sums[i];
    }
    __syncthreads();
    if (lane == 0) {
#pragma unroll 1
      for (int other = 1; other < lanes; ++other) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) sums[i] += shares[thread + other * vectors].values[i];
      }
#pragma unroll
      for (int i = 0; i < kVector; ++i) ordered[(place + i) * taps + tap] = from_float<T>(sums[i]);
    }
  }
  for (int number = lanes > 1 ? vectors : thread; number < vectors; number += kGatherThreads) {
    int tap = number;
    const int place = g.taps.split(tap) * kVector;
    using Read = Pack<From, kVector>;
    const From* const at = from + tap * g.tap_stride + place;
    const Read values = *reinterpret_cast<const Read*>(at);
    T* const row = ordered + place * taps + tap;
    if (g.slices == 1) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) row[i * taps] = from_float<T>(to_float(values.values[i]));
      continue;
    }
    float sums[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) sums[i] = to_float(values.values[i]);
#pragma unroll 4
    for (int slice = 1; slice < g.slices; ++slice) {
      const Read more = *reinterpret_cast<const Read*>(at + slice * g.slice_stride);
#pragma unroll
      for (int i = 0; i < kVector; ++i) sums[i] += to_float(more.values[i]);
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) row[i * taps] = from_float<T>(sums[i]);
  }
  __syncthreads();
  const int elements = run * taps;
  int written = 0;
  if (writes_vectors) {
    written = elements / kWritten * kWritten;
    using Vector = Pack<T, kWritten>;
    for (int i = thread * kWritten; i < written; i += kGatherThreads * kWritten) {
      *reinterpret_cast<Vector*>(to + i) = *reinterpret_cast<const Vector*>(ordered + i);
    }
  }
  for (int i = written + thread; i < elements; i += kGatherThreads) to[i] = ordered[i];
}

}  // namespace adjoint::cuda::tapwise

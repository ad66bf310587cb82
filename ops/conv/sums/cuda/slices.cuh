// Adds up partial results in slices, in an order that their number alone determines, with bias and activation, and
// rounds once.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::sliced {

inline constexpr int kAddThreads = 256;

/// partial is [image and group][slice][channel][position]; the results have the same order without slices. A filter
/// counts as one image, with weights as channels of one position.
template <class T>
struct Addition {
  const float* partial;
  const T* bias;  // may be null
  T* out;
  T* linear;  // receives the rounded sum and bias before the activation; null if not wanted
  Activate<float> activate;
  std::int32_t slices;
  std::int32_t lanes, lane_slices;  // threads that share a vector's slices, and slices that each adds up
  std::int32_t vector;              // results of a thread
  std::int64_t vectors;
  Divider slice_vectors, plane, group;  // vectors of a slice, positions, groups
  std::int32_t channels;                // of a group
};

/// Blocks of threads of an addition.
template <class T>
std::int64_t addition_blocks(const Addition<T>& a) {
  return ceil_div(a.vectors, kAddThreads / a.lanes);
}

inline constexpr int kAddVector = 4;  // results of a thread, if they are aligned to it

/// The addition of a problem's results, with kAddVector or one for each thread.
template <class T>
Addition<T> addition_of(const ConvProblem& problem, const float* partial, int slices) {
  const ConvGeometry& g = problem.geometry;
  const bool filter = problem.role == ConvRole::kFilter, transposed = problem.role == ConvRole::kImage;
  const std::int64_t images = filter ? 1 : g.batch;
  const std::int64_t channels = filter       ? g.filter_numel() / g.groups
                                : transposed ? g.image_channels_per_group()
                                             : g.feature_channels_per_group();
  const std::int64_t plane = filter ? 1 : transposed ? g.image_plane() : g.feature_plane(), slice = channels * plane;
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  const auto wide = [&](const void* results) { return rows_aligned(results, slice * kBytes, kAddVector * kBytes); };
  const int vector = wide(problem.out) && (problem.linear == nullptr || wide(problem.linear)) ? kAddVector : 1;
  // Gives a lane as many slices as it reads together.
  const int lanes = slices <= 16 ? 1 : slices <= 64 ? 4 : 8;
  const auto divider = [](std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  return {.partial = partial,
          .bias = static_cast<const T*>(problem.bias),
          .out = static_cast<T*>(problem.out),
          .linear = static_cast<T*>(problem.linear),
          .activate = Activate<float>(problem.activation),
          .slices = slices,
          .lanes = lanes,
          .lane_slices = static_cast<std::int32_t>(ceil_div(slices, lanes)),
          .vector = vector,
          .vectors = images * g.groups * slice / vector,
          .slice_vectors = divider(slice / vector),
          .plane = divider(plane),
          .group = divider(g.groups),
          .channels = static_cast<std::int32_t>(channels)};
}

template <int kVector, class T>
__device__ __forceinline__ void store(T* to, const float (&values)[kVector]) {
  Pack<T, kVector> results;
#pragma unroll
  for (int i = 0; i < kVector; ++i) results.values[i] = from_float<T>(values[i]);
  *reinterpret_cast<Pack<T, kVector>*>(to) = results;
}

template <int kVector, class T>
__global__ void __launch_bounds__(kAddThreads) add_slices_kernel(const __grid_constant__ Addition<T> a) {
  using Partial = Pack<float, kVector>;
  __shared__ Partial shares[kAddThreads];
  ptx::wait_for_earlier_kernels();
  const int thread = static_cast<int>(threadIdx.x), together = kAddThreads / a.lanes;
  const int lane = thread / together;
  const auto index = static_cast<std::int64_t>(blockIdx.x) * together + thread % together;
  auto vector = static_cast<std::int32_t>(index);
  const std::int32_t image_group = a.slice_vectors.split(vector);
  const auto step = static_cast<std::int64_t>(a.slice_vectors.divisor());
  const auto* from = reinterpret_cast<const Partial*>(a.partial) + image_group * step * a.slices + vector;
  const int last = index < a.vectors ? min(a.slices, (lane + 1) * a.lane_slices) : 0;
  float sums[kVector] = {};
  // There are few results, and with many slices their reads one after another would dominate.
  constexpr int kAtOnce = 16;
  for (int first = lane * a.lane_slices; first < last; first += kAtOnce) {
    Partial values[kAtOnce] = {};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j < last) values[j] = from[(first + j) * step];
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j < last) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) sums[i] += values[j].values[i];
      }
    }
  }
  if (a.lanes > 1) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) shares[thread].values[i] = sums[i];
    __syncthreads();
    for (int other = 1; lane == 0 && other < a.lanes; ++other) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) sums[i] += shares[thread + other * together].values[i];
    }
  }
  if (lane > 0 || index >= a.vectors) return;
  if (a.bias != nullptr) {
    std::int32_t of_group = image_group;
    a.group.split(of_group);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      std::int32_t place = vector * kVector + i;
      sums[i] += to_float(a.bias[of_group * a.channels + a.plane.split(place)]);
    }
  }
  if (a.linear != nullptr) store(a.linear + index * kVector, sums);
  a.activate(sums);
  store(a.out + index * kVector, sums);
}

}  // namespace adjoint::cuda::sliced

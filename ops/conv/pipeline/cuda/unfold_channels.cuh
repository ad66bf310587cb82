// Unfolds an image in channels_last: each position of the feature gets the image's values that its taps read, with
// zeros outside the image and up to a multiple of 16 bytes. A thread writes the same 16 bytes of several positions,
// because it takes longer to compute the places of taps than to read there.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <cstdint>

namespace adjoint::cuda::pipeline {

inline constexpr int kUnfoldThreads = 256, kUnfoldPositions = 4;  // of a thread

struct Unfold {
  std::int32_t positions, step;  // of the feature in all samples; from one of a thread's positions to the next
  std::int32_t channels;         // without those that fill up 16 bytes
  bool taps_are_inner;
  Divider vectors, inner, feature[3], kernel[3];
  std::int32_t stride[3], padding[3], dilation[3];
  std::uint32_t image[3], pitch[3];  // extents; elements from one position to the next
  std::int64_t sample;               // elements of the image

  std::int64_t threads() const { return std::int64_t{step} * vectors.divisor(); }
};

/// taps_are_inner: a channel's taps follow each other; otherwise a tap's channels. vector: elements of 16 bytes.
inline Unfold unfold_of(const ConvGeometry& g, bool taps_are_inner, std::int64_t vector) {
  const auto divider = [](std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  const std::int64_t positions = g.batch * g.feature_plane(), channels = g.image_channels * g.taps();
  Unfold unfold{.positions = static_cast<std::int32_t>(positions),
                .step = static_cast<std::int32_t>(ceil_div(positions, kUnfoldPositions)),
                .channels = static_cast<std::int32_t>(channels),
                .taps_are_inner = taps_are_inner,
                .vectors = divider(ceil_div(channels, vector)),
                .inner = divider(taps_are_inner ? g.taps() : g.image_channels),
                .sample = g.image_channels * g.image_plane()};
  std::int64_t pitch = g.image_channels;
  for (int axis = 2; axis >= 0; --axis) {
    const auto a = static_cast<std::size_t>(axis);
    unfold.feature[axis] = divider(g.feature[a]);
    unfold.kernel[axis] = divider(g.kernel[a]);
    unfold.stride[axis] = static_cast<std::int32_t>(g.stride[a]);
    unfold.padding[axis] = static_cast<std::int32_t>(g.padding[a]);
    unfold.dilation[axis] = static_cast<std::int32_t>(g.dilation[a]);
    unfold.image[axis] = static_cast<std::uint32_t>(g.image[a]);
    unfold.pitch[axis] = static_cast<std::uint32_t>(pitch);
    pitch *= g.image[a];
  }
  return unfold;
}

/// Unit: an unsigned integer of an element's size.
template <class Unit>
__global__ void __launch_bounds__(kUnfoldThreads)
    unfold_channels_kernel(const __grid_constant__ Unfold u, const Unit* image, Unit* unfolded) {
  constexpr int kVector = 16 / sizeof(Unit);
  int first = static_cast<int>(blockIdx.x) * kUnfoldThreads + static_cast<int>(threadIdx.x);
  int position = u.vectors.split(first);
  if (position >= u.step) return;
  unfolded += first * kVector;
  int shifts[kVector][3];
  std::uint32_t offsets[kVector];  // modulo 2^32, as all sums of offsets
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    int inner = first * kVector + i;
    const int outer = u.inner.split(inner);
    int tap = u.taps_are_inner ? inner : outer;
    offsets[i] = static_cast<std::uint32_t>(u.taps_are_inner ? outer : inner);
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
      int place = tap;
      tap = u.kernel[axis].split(place);
      shifts[i][axis] = place * u.dilation[axis];
      offsets[i] += static_cast<std::uint32_t>(shifts[i][axis]) * u.pitch[axis];
    }
  }
  ptx::wait_for_earlier_kernels();
  for (; position < u.positions; position += u.step) {
    int sample = position, at[3];
    std::uint32_t offset = 0;
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
      int place = sample;
      sample = u.feature[axis].split(place);
      at[axis] = place * u.stride[axis] - u.padding[axis];
      offset += static_cast<std::uint32_t>(at[axis]) * u.pitch[axis];
    }
    const Unit* const from = image + sample * u.sample;
    Pack<Unit, kVector> vector;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      bool is_inside = first * kVector + i < u.channels;
#pragma unroll
      for (int axis = 0; axis < 3; ++axis) {
        is_inside = is_inside && static_cast<std::uint32_t>(at[axis] + shifts[i][axis]) < u.image[axis];
      }
      vector.values[i] = is_inside ? from[offset + offsets[i]] : Unit{0};
    }
    *reinterpret_cast<Pack<Unit, kVector>*>(unfolded + std::int64_t{position} * u.vectors.divisor() * kVector) = vector;
  }
}

}  // namespace adjoint::cuda::pipeline

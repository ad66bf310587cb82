// What the tensor-core kernels of conv_weight share: their operands, copies to shared memory, and the sum over splits.
#pragma once

#include <adjoint/ops/conv/weight_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {

struct WeightOperands {
  const void* image;
  const void* feature;
  float* partial;                             // (splits, blocks, columns, rows)
  std::int32_t image_vector, feature_vector;  // elements that every row lets be copied at once
};

namespace weight {

inline constexpr int kSumPositions = 4096;  // summed on tensor cores at a stretch

template <Arithmetic kArithmetic>
using Element = typename ArithmeticTraits<kArithmetic>::Element;

/// A value of an operand from global to shared memory: asynchronously in 4, 8 or 16 bytes, or one half by way of a
/// register.
template <int kBytes>
__device__ __forceinline__ void copy_or_zero(unsigned char* smem, std::uint32_t smem_base, std::uint32_t to,
                                             const void* from, bool valid) {
  if constexpr (kBytes >= 4) {
    ptx::cp_async_zfill<kBytes>(smem_base + to, from, valid);
  } else {
    *reinterpret_cast<std::uint16_t*>(smem + to) =
        valid ? __ldg(static_cast<const std::uint16_t*>(from)) : std::uint16_t{0};
  }
}

/// Of add_splits_kernel, of 256 threads.
inline unsigned add_splits_blocks(const WeightPlan& plan) {
  const std::int64_t elements =
      std::int64_t{plan.groups} * plan.feature_channels * plan.image_channels * plan.kernel_h * plan.kernel_w;
  return static_cast<unsigned>(std::clamp<std::int64_t>((elements + 255) / 256, 1, 1024));
}

/// Adds the splits in order; one thread an element of the filter.
template <class T>
__global__ void add_splits_kernel(const __grid_constant__ WeightPlan p, const float* partial, T* filter) {
  // The planners refuse filters of 2^31 elements: 32-bit divisions take a tenth of the time.
  const auto taps = static_cast<std::uint32_t>(p.kernel_h * p.kernel_w);
  const auto channels = static_cast<std::uint32_t>(p.image_channels);
  const auto features = static_cast<std::uint32_t>(p.feature_channels);
  const std::uint32_t count = static_cast<std::uint32_t>(p.groups) * features * channels * taps;
  const std::int64_t blocks = p.blocks_per_split(), tile = static_cast<std::int64_t>(p.tile_rows) * p.tile_columns;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const std::uint32_t c = i / taps, f = c / channels, group = f / features;
    const WeightPlace place =
        weight_place(p, static_cast<std::int32_t>(group), static_cast<std::int32_t>(f % features),
                     static_cast<std::int32_t>(c % channels), static_cast<std::int32_t>(i % taps));
    const float* from = partial + place.block * tile + std::int64_t{place.column} * p.tile_rows + place.row;
    double sum = 0;
#pragma unroll 8
    for (std::int32_t split = 0; split < p.splits; ++split) sum += static_cast<double>(from[split * blocks * tile]);
    filter[i] = from_float<T>(static_cast<float>(sum));
  }
}

}  // namespace weight
}  // namespace adjoint::cuda

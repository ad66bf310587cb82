// How conv_weight's wgmma kernel places the feature in shared memory: where wgmma's 128-byte swizzle wants it.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/weight_wgmma_image.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::weight {

/// A loader's share of a stage of the feature: one place, in every so-many-th channel.
template <int kSize, int kVector>
struct FeatureLanes {
  int position, first_column, column_step;
  std::uint32_t row, within;  // bytes: the place is row + column * 128 + (within ^ column % 8 * 16)

  __device__ __forceinline__ FeatureLanes(const WeightPlan& p, int thread) {
    const int vectors = (1 << p.log2_positions()) / kVector;  // at most kLoaders
    position = thread % vectors * kVector;
    first_column = thread / vectors;
    column_step = kLoaders / vectors;
    const int byte = position * kSize;
    row = static_cast<std::uint32_t>(byte / 128 * p.tile_columns * 128);
    within = static_cast<std::uint32_t>(byte % 128);
  }
  __device__ __forceinline__ std::uint32_t place(int column) const {
    return row + column * 128 + (within ^ static_cast<std::uint32_t>((column & 7) << 4));
  }
};

/// Where a loader reads a stage's feature; no channels outside the feature's positions.
struct FeatureSource {
  const unsigned char* first;
  std::int64_t step;  // from one of its channels to the next, bytes
  int channels;       // of the block's columns

  template <class Lanes>
  __device__ __forceinline__ FeatureSource(const WeightPlan& p, const WeightWork& work, const Lanes& lanes,
                                           const WeightStage& at, const void* feature, int size) {
    const int w = at.w + (lanes.position & ((1 << p.log2_tile_w) - 1));
    const int h = at.h + (lanes.position >> p.log2_tile_w & ((1 << p.log2_tile_h) - 1));
    const std::int64_t n = at.n + (lanes.position >> (p.log2_tile_w + p.log2_tile_h));
    const std::int64_t plane = static_cast<std::int64_t>(p.feature_h) * p.feature_w * size;
    const bool inside = n < p.batch && h < p.feature_h && w < p.feature_w;
    const std::int64_t channel =
        (n * p.groups + work.group) * p.feature_channels + work.first_column + lanes.first_column;
    first = static_cast<const unsigned char*>(feature) + channel * plane +
            (static_cast<std::int64_t>(h) * p.feature_w + w) * size;
    step = lanes.column_step * plane;
    channels = inside ? p.feature_channels - work.first_column : 0;
  }
};

template <int kVector>
using Words = std::conditional_t<kVector == 4, uint4, std::conditional_t<kVector == 2, uint2, std::uint32_t>>;

/// Rounds kVector float32 in shared memory to tf32, or splits them; tails go `tail` bytes further.
template <int kVector, bool kSplit>
__device__ __forceinline__ void round_in_place(unsigned char* at, int tail) {
  union {
    Words<kVector> vector;
    std::uint32_t words[kVector];
  } heads, tails;
  heads.vector = *reinterpret_cast<const Words<kVector>*>(at);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float word = __uint_as_float(heads.words[i]);
    if constexpr (kSplit) {
      split_tf32(word, heads.words[i], tails.words[i]);
    } else {
      heads.words[i] = ptx::round_to_tf32(word);
    }
  }
  *reinterpret_cast<Words<kVector>*>(at) = heads.vector;
  if constexpr (kSplit) *reinterpret_cast<Words<kVector>*>(at + tail) = tails.vector;
}

}  // namespace adjoint::cuda::weight

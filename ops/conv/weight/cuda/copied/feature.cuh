// Places the feature of conv_weight's wgmma kernel in shared memory, in the order of wgmma's 128-byte swizzle.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/weight/cuda/copied/image.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::weight {

/// A loader's share of a stage of the feature: one place, in kCount channels, every kStep-th.
template <int kSize, int kVector, int kLog2Positions, int kColumns>
struct FeatureLanes {
  static constexpr int kVectors = (1 << kLog2Positions) / kVector;  // at most kLoaders
  static constexpr int kStep = kLoaders / kVectors, kCount = kColumns / kStep;
  static constexpr int kBatch = kCount < 8 ? kCount : 8;  // at a time; the swizzle treats neighbouring batches alike
  int position, first_column;
  std::uint32_t first;  // the first channel's place, bytes

  __device__ __forceinline__ explicit FeatureLanes(int thread)
      : position(thread % kVectors * kVector), first_column(thread / kVectors) {
    const int byte = position * kSize;
    first = static_cast<std::uint32_t>((byte / 128 * kColumns + first_column) * 128 +
                                       (byte % 128 ^ (first_column & 7) << 4));
  }
  /// The place of channel `i` of the batch whose first channel is at `batch`, a multiple of 128 bytes plus the first
  /// place.
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t batch, int i) {
    return (batch ^ static_cast<std::uint32_t>((i * kStep & 7) << 4)) + static_cast<std::uint32_t>(i * kStep * 128);
  }
};

/// The part of the feature that a loader reads.
template <int kSize>
struct FeatureSource {
  const unsigned char* origin;  // of its place and first channel in the very first stage
  const unsigned char* first;   // the same in this stage
  std::int64_t sample, step;    // bytes from an image, and from one of its channels, to the next
  int n, h, w;                  // of its place
  bool inside;

  template <class Lanes>
  __device__ __forceinline__ FeatureSource(const WeightPlan& p, const WeightWork& work, const Lanes& lanes,
                                           const void* feature) {
    w = lanes.position & ((1 << p.log2_tile_w) - 1);
    h = lanes.position >> p.log2_tile_w & ((1 << p.log2_tile_h) - 1);
    n = lanes.position >> (p.log2_tile_w + p.log2_tile_h);
    const std::int64_t plane = static_cast<std::int64_t>(p.feature_h) * p.feature_w * kSize;
    sample = plane * p.feature_channels * p.groups;
    step = Lanes::kStep * plane;
    origin =
        static_cast<const unsigned char*>(feature) + n * sample +
        (static_cast<std::int64_t>(work.group) * p.feature_channels + work.first_column + lanes.first_column) * plane +
        (static_cast<std::int64_t>(h) * p.feature_w + w) * kSize;
  }
  __device__ __forceinline__ void move(const WeightPlan& p, const WeightStage& at) {
    // A stage begins inside a plane, which has less than 2^31 elements.
    const std::uint32_t within =
        static_cast<std::uint32_t>(at.h) * static_cast<std::uint32_t>(p.feature_w) + static_cast<std::uint32_t>(at.w);
    first = origin + at.n * sample + static_cast<std::uint64_t>(within) * kSize;
    inside = at.n + n < p.batch && at.h + h < p.feature_h && at.w + w < p.feature_w;
  }
};

/// Copies a stage's features; the block's channels from `columns` on are zeros (kWhole: there are none of these).
template <int kSize, int kVector, bool kWhole, class Lanes>
__device__ __forceinline__ void copy_features(const WgmmaBlock& block, const Lanes& lanes,
                                              const FeatureSource<kSize>& source, std::uint32_t stage, int columns,
                                              const void* anywhere) {
  const unsigned char* from = source.inside || !kWhole ? source.first : static_cast<const unsigned char*>(anywhere);
  const std::int64_t step = source.inside || !kWhole ? source.step : 0;
  std::uint32_t batch = stage + lanes.first;
  int column = lanes.first_column;
#pragma unroll 1
  for (int begin = 0; begin < Lanes::kCount; begin += Lanes::kBatch) {
#pragma unroll
    for (int i = 0; i < Lanes::kBatch; ++i) {
      const bool valid = source.inside && (kWhole || column + i * Lanes::kStep < columns);
      const unsigned char* const at = from + i * step;
      copy_or_zero<kSize * kVector>(block.smem, block.smem_base, Lanes::place(batch, i),
                                    kWhole || valid ? at : anywhere, valid);
    }
    from += Lanes::kBatch * step;
    batch += Lanes::kBatch * Lanes::kStep * 128;
    column += Lanes::kBatch * Lanes::kStep;
  }
}

template <int kVector>
using Words = std::conditional_t<kVector == 4, uint4, std::conditional_t<kVector == 2, uint2, std::uint32_t>>;

/// Rounds kVector float32 to tf32, or splits them.
template <int kVector, bool kSplit>
__device__ __forceinline__ void round_words(Words<kVector>& heads, Words<kVector>& tails) {
  union {
    Words<kVector> vector;
    std::uint32_t words[kVector];
  } head, tail;
  head.vector = heads;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float word = __uint_as_float(head.words[i]);
    if constexpr (kSplit) {
      split_tf32(word, head.words[i], tail.words[i]);
    } else {
      head.words[i] = ptx::round_to_tf32(word);
    }
  }
  heads = head.vector;
  if constexpr (kSplit) tails = tail.vector;
}

/// Rounds or splits a loader's own features of a stage, in place; tails go `tail` bytes further.
template <int kVector, bool kSplit, class Lanes>
__device__ __forceinline__ void round_features(unsigned char* smem, const Lanes& lanes, std::uint32_t stage, int tail) {
  using Vector = Words<kVector>;
  constexpr int kAtOnce = Lanes::kBatch < 4 ? Lanes::kBatch : kSplit ? 2 : 4;  // read before the first is stored
  std::uint32_t batch = stage + lanes.first;
#pragma unroll 1
  for (int begin = 0; begin < Lanes::kCount; begin += Lanes::kBatch, batch += Lanes::kBatch * Lanes::kStep * 128) {
#pragma unroll
    for (int first = 0; first < Lanes::kBatch; first += kAtOnce) {
      Vector heads[kAtOnce], tails[kSplit ? kAtOnce : 1];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        heads[i] = *reinterpret_cast<const Vector*>(smem + Lanes::place(batch, first + i));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        unsigned char* const at = smem + Lanes::place(batch, first + i);
        round_words<kVector, kSplit>(heads[i], tails[kSplit ? i : 0]);
        *reinterpret_cast<Vector*>(at) = heads[i];
        if constexpr (kSplit) *reinterpret_cast<Vector*>(at + tail) = tails[i];
      }
    }
  }
}

}  // namespace adjoint::cuda::weight

// Fills stages of conv_weight that are boxes, by one warpgroup: one thread requests them from the copy engine, which
// rounds float32 to tf32 and zeroes elements outside. Split float32 is copied unchanged, and three warps split the
// feature's once it has arrived. If an operand does not begin at a multiple of 16 bytes, they copy element by element
// to the same places, so that an address does not affect the bits.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/weight/boxes_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/weight/cuda/block.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

struct BoxOperands {
  TensorMap image_maps[kMaxWeightResidues], feature_map;  // if `aligned`
  const void* image;
  const void* feature;
  float* partial;  // (splits, blocks, columns, rows)
  bool aligned;    // both begin at multiples of 16 bytes
};

/// One thread: asks for a stage's boxes, which report to the barrier.
__device__ __forceinline__ void ask_for_boxes(const WeightPlan& p, const BoxOperands& operands, const WgmmaBlock& block,
                                              const WeightStage& at, std::uint32_t stage, std::uint32_t barrier) {
  const int lines = (1 << p.log2_positions()) / p.line_positions(), line_bytes = 128 * p.tile_columns;
  const int box_bytes = p.box_elements() * (4 / p.unit_elements);
  ptx::mbarrier_arrive_expect_bytes(barrier, p.residues * box_bytes + lines * line_bytes);
  const WeightBoxPlace place = weight_image_box(p, block.work, at);
  for (int residue = 0; residue < p.residues; ++residue) {
    ptx::tensor_copy(stage + block.feature_bytes + residue * box_bytes, &operands.image_maps[residue], place.at,
                     barrier);
  }
  for (int line = 0; line < lines; ++line) {
    ptx::tensor_copy(stage + line * line_bytes, &operands.feature_map, weight_feature_box(p, block.work, at, line).at,
                     barrier);
  }
}

template <int kCount>
__device__ __forceinline__ void split_vectors(unsigned char* first, std::uint32_t step, std::uint32_t tail) {
  uint4 values[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = *reinterpret_cast<const uint4*>(first + i * step);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    uint4 heads, tails;
    split_tf32(__uint_as_float(values[i].x), heads.x, tails.x);
    split_tf32(__uint_as_float(values[i].y), heads.y, tails.y);
    split_tf32(__uint_as_float(values[i].z), heads.z, tails.z);
    split_tf32(__uint_as_float(values[i].w), heads.w, tails.w);
    *reinterpret_cast<uint4*>(first + i * step) = heads;
    *reinterpret_cast<uint4*>(first + i * step + tail) = tails;
  }
}

/// `threads` together: split the features of a stage, heads in place and tails `tail` bytes further.
__device__ __forceinline__ void split_features(unsigned char* stage, std::uint32_t tail, int thread, int threads) {
  constexpr int kAtOnce = 3;
  const std::uint32_t step = 16 * static_cast<std::uint32_t>(threads);
  std::uint32_t at = 16 * static_cast<std::uint32_t>(thread);
#pragma unroll 1
  for (; at + (kAtOnce - 1) * step < tail; at += kAtOnce * step) split_vectors<kAtOnce>(stage + at, step, tail);
#pragma unroll 1
  for (; at < tail; at += step) split_vectors<1>(stage + at, step, tail);
}

template <Arithmetic kArithmetic>
__device__ __forceinline__ void copy_element(unsigned char* to,
                                             const typename ArithmeticTraits<kArithmetic>::Element* from) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  const T value = from == nullptr ? from_float<T>(0.0F) : *from;
  if constexpr (kArithmetic == Arithmetic::kTF32) {
    *reinterpret_cast<std::uint32_t*>(to) = ptx::round_to_tf32(value);
  } else {
    *reinterpret_cast<T*>(to) = value;
  }
}

/// All threads: copy a stage's box of the image, element by element.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void copy_image(const WeightPlan& p, const WgmmaBlock& block, const void* image,
                                           const WeightStage& stage_at, unsigned char* to, int thread) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  const WeightBoxPlace box = weight_image_box(p, block.work, stage_at);
  const int first_w = box.at[0] + (box.at[1] << p.log2_box_w), first_c = box.at[2], first_h = box.at[3];
  const int channels = p.image_channels * p.groups;
  const int lines = p.rows << p.log2_tile_n;
#pragma unroll 1
  for (int line = 0; line < p.residues * lines; ++line) {
    const int residue = line / lines, of_box = line - residue * lines, shift = p.row_shift(residue);
    const std::int64_t n = stage_at.n + of_box / p.rows;
    const int h = first_h + of_box % p.rows;
#pragma unroll 1
    for (int i = thread; i < p.line_elements(); i += kLoaders) {
      const int c = (first_c + i / p.cols) * p.residues + residue, w = first_w + i % p.cols - shift;
      const bool inside = n < p.batch && c < channels && h >= 0 && h < p.image_h && w >= 0 && w < p.image_w;
      const std::int64_t at = ((n * channels + c) * p.image_h + h) * p.image_w + w;
      copy_element<kArithmetic>(to + (line * p.line_elements() + i) * sizeof(T),
                                inside ? static_cast<const T*>(image) + at : nullptr);
    }
  }
}

/// All threads: copy a stage's features, element by element.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void copy_features(const WeightPlan& p, const WgmmaBlock& block, const void* feature,
                                              const WeightStage& at, unsigned char* to, int thread) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  const int position = thread & ((1 << p.log2_positions()) - 1), step = kLoaders >> p.log2_positions();
  const int w = at.w + (position & ((1 << p.log2_tile_w) - 1));
  const int h = at.h + (position >> p.log2_tile_w & ((1 << p.log2_tile_h) - 1));
  const std::int64_t n = at.n + (position >> (p.log2_tile_w + p.log2_tile_h));
  const bool inside = n < p.batch && h < p.feature_h && w < p.feature_w;
  const int channels = p.feature_channels * p.groups, first = block.work.group * p.feature_channels;
  const std::int64_t plane = static_cast<std::int64_t>(p.feature_h) * p.feature_w;
#pragma unroll 4
  for (int column = thread >> p.log2_positions(); column < p.tile_columns; column += step) {
    const int c = first + block.work.first_column + column;
    const T* const from =
        static_cast<const T*>(feature) + (n * channels + c) * plane + static_cast<std::int64_t>(h) * p.feature_w + w;
    copy_element<kArithmetic>(to + wgmma_feature_place(p, column, position), inside && c < channels ? from : nullptr);
  }
}

inline constexpr int kSplitters = kLoaders - 32;  // threads that split values which another warp loaded

/// Arrivals that fill a stage.
template <Arithmetic kArithmetic>
__device__ __forceinline__ int loader_arrivals(const BoxOperands& operands) {
  if (!operands.aligned) return kLoaders;
  return ArithmeticTraits<kArithmetic>::kSplit ? kSplitters : 1;
}

/// The warpgroup's walk through the stages.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void load_boxes(const WeightPlan& p, const BoxOperands& operands, const WgmmaBlock& block,
                                           std::uint32_t landed, int thread) {
  constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
  const int stages = static_cast<int>(block.end_stage - block.first_stage);
  StageWalk walk(p, block);
  Ring ring;
  if (!operands.aligned) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) {
      ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
      unsigned char* const stage = block.smem + ring.slot * block.stage_bytes;
      copy_image<kArithmetic>(p, block, operands.image, walk.at, stage + block.feature_bytes, thread);
      copy_features<kArithmetic>(p, block, operands.feature, walk.at, stage, thread);
      if constexpr (kSplit) {
        ptx::barrier<kLoaders>(1);
        split_features(stage, block.feature_bytes / 2, thread, kLoaders);
      }
      ptx::fence_async_proxy();
      ptx::mbarrier_arrive(block.full + 8 * ring.slot);
      walk.advance(p);
      ring.advance(p.smem_stages);
    }
  } else if (thread == kSplitters) {
    const std::uint32_t arrived = kSplit ? landed : block.full;
#pragma unroll 1
    for (int s = 0; s < stages; ++s) {
      ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
      ask_for_boxes(p, operands, block, walk.at, block.smem_base + ring.slot * block.stage_bytes,
                    arrived + 8 * ring.slot);
      walk.advance(p);
      ring.advance(p.smem_stages);
    }
  } else if (kSplit && thread < kSplitters) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) {
      ptx::mbarrier_wait(landed + 8 * ring.slot, ring.parity);
      split_features(block.smem + ring.slot * block.stage_bytes, block.feature_bytes / 2, thread, kSplitters);
      ptx::fence_async_proxy();
      ptx::mbarrier_arrive(block.full + 8 * ring.slot);
      ring.advance(p.smem_stages);
    }
  }
}

}  // namespace adjoint::cuda::weight

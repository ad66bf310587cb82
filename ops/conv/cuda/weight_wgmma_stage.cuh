// How conv_weight's wgmma kernel fills shared memory: a warpgroup copies the image as raw rows, another the feature to
// the places that wgmma's swizzle gives it. Stages are a ring with a full and an empty mbarrier each; a stage is full
// once every thread of both has arrived.
//
// wgmma would truncate float32 to tf32: once a thread's own copies of features have landed, it rounds or splits them in
// place. Later stages' copies are under way meanwhile.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/weight_wgmma_feature.cuh>
#include <adjoint/ops/conv/cuda/weight_wgmma_image.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

struct WgmmaRing {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// The image's part of all stages of a block.
template <int kSize>
__device__ __forceinline__ void load_images(const WeightPlan& p, const WeightOperands& operands,
                                            const WgmmaBlock& block, int thread) {
  // Single halves come by way of registers; halves of a strided image too.
  const bool stores = kSize == 2 && (operands.image_vector == 1 || p.stride_w > 1);
  WgmmaRing ring;
#pragma unroll 1
  for (std::int64_t s = block.first_stage; s < block.end_stage; ++s) {
    ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
    const std::uint32_t stage = ring.slot * block.stage_bytes, full = block.full + 8 * ring.slot;
    load_wgmma_image<kSize>(p, block, weight_stage(p, s), operands, stage + block.feature_bytes, thread);
    if (stores) {
      ptx::mbarrier_arrive(full);
    } else {
      ptx::mbarrier_arrive_after_cp_async(full);
    }
    ring.advance(p.smem_stages);
  }
}

/// The feature's, with kLag stages' copies under way before the first is waited for: a ring of kLag + 2 stages at
/// least.
template <Arithmetic kArithmetic, int kColumns, int kVector, int kLag>
__device__ __forceinline__ void load_features(const WeightPlan& p, const WeightOperands& operands,
                                              const WgmmaBlock& block, int thread) {
  using Traits = ArithmeticTraits<kArithmetic>;
  constexpr int kSize = Traits::kHalf ? 2 : 4;
  const FeatureLanes<kSize, kVector> lanes(p, thread);
  const int tail = static_cast<int>(block.feature_bytes / 2);
  WgmmaRing ring, landed;
  // After a wait for this thread's copies; wgmma reads through another proxy.
  const auto finish = [&] {
    if constexpr (!Traits::kHalf) {
      unsigned char* const stage = block.smem + landed.slot * block.stage_bytes;
#pragma unroll 8
      for (int column = lanes.first_column; column < kColumns; column += lanes.column_step) {
        round_in_place<kVector, Traits::kSplit>(stage + lanes.place(column), tail);
      }
    }
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(block.full + 8 * landed.slot);
    landed.advance(p.smem_stages);
  };
  int open = 0;
#pragma unroll 1
  for (std::int64_t s = block.first_stage; s < block.end_stage; ++s) {
    ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
    FeatureSource source(p, block.work, lanes, weight_stage(p, s), operands.feature, kSize);
    const std::uint32_t stage = ring.slot * block.stage_bytes;
#pragma unroll 8
    for (int column = lanes.first_column; column < kColumns; column += lanes.column_step) {
      const bool valid = column < source.channels;
      copy_or_zero<kSize * kVector>(block.smem, block.smem_base, stage + lanes.place(column),
                                    valid ? source.first : operands.feature, valid);
      source.first += source.step;
    }
    ptx::cp_async_commit();
    ring.advance(p.smem_stages);
    if (open == kLag) {
      ptx::cp_async_wait<kLag>();
      finish();
    } else {
      ++open;
    }
  }
  ptx::cp_async_wait<0>();
  for (; open > 0; --open) finish();
}

template <Arithmetic kArithmetic, int kColumns, int kVector>
__device__ __forceinline__ void load_features(const WeightPlan& p, const WeightOperands& operands,
                                              const WgmmaBlock& block, int thread) {
  if (p.smem_stages >= 4) {
    load_features<kArithmetic, kColumns, kVector, 2>(p, operands, block, thread);
  } else {
    load_features<kArithmetic, kColumns, kVector, 1>(p, operands, block, thread);
  }
}

template <Arithmetic kArithmetic, int kColumns>
__device__ __forceinline__ void load_features(const WeightPlan& p, const WeightOperands& operands,
                                              const WgmmaBlock& block, int thread) {
  constexpr int kWide = ArithmeticTraits<kArithmetic>::kHalf ? 8 : 4;
  switch (operands.feature_vector) {
    case 8: return load_features<kArithmetic, kColumns, kWide>(p, operands, block, thread);
    case 4: return load_features<kArithmetic, kColumns, 4>(p, operands, block, thread);
    case 2: return load_features<kArithmetic, kColumns, 2>(p, operands, block, thread);
    default: return load_features<kArithmetic, kColumns, 1>(p, operands, block, thread);
  }
}

}  // namespace adjoint::cuda::weight

// Fills the shared memory of conv_weight's wgmma kernel: one warpgroup copies the image as raw rows, another the
// feature in the order of wgmma's swizzle. Stages are a ring with a full and an empty mbarrier each; a stage is full
// once every thread of both warpgroups has arrived.
//
// wgmma would truncate float32 to tf32, so once a thread's own copies of features have landed, it rounds or splits them
// in place, while later stages' copies are in flight.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/weight/cuda/block.cuh>
#include <adjoint/ops/conv/weight/cuda/copied/feature.cuh>
#include <adjoint/ops/conv/weight/cuda/copied/image.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

/// Fills the image's part of all stages of a block.
template <int kSize>
__device__ __forceinline__ void load_images(const WeightPlan& p, const WeightOperands& operands,
                                            const WgmmaBlock& block, const uint2* items, int thread) {
  // Single halves pass through registers; so do halves of a strided image.
  const bool stores = kSize == 2 && (operands.image_vector == 1 || p.stride_w > 1);
  ImageWindow<kSize> window(p, block.work, operands.image, items);
  StageWalk walk(p, block);
  Ring ring;
  const int stages = static_cast<int>(block.end_stage - block.first_stage);
#pragma unroll 1
  for (int s = 0; s < stages; ++s) {
    window.move(p, walk.at);
    ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
    const std::uint32_t stage = ring.slot * block.stage_bytes, full = block.full + 8 * ring.slot;
    load_wgmma_image<kSize>(p, block, window, operands, stage + block.feature_bytes, thread);
    if (stores) {
      ptx::mbarrier_arrive(full);
    } else {
      ptx::mbarrier_arrive_after_cp_async(full);
    }
    walk.advance(p);
    ring.advance(p.smem_stages);
  }
}

/// Fills the feature's part. A stage is finished, once its copies have landed, before waiting for a slot for the stage
/// `lag` further on: multipliers that wait for the former could not free the latter. So `lag` is at most smem_stages -
/// 1.
template <Arithmetic kArithmetic, int kColumns, int kVector, int kLog2Positions>
__device__ __forceinline__ void load_features(const WeightPlan& p, const WeightOperands& operands,
                                              const WgmmaBlock& block, int thread) {
  using Traits = ArithmeticTraits<kArithmetic>;
  constexpr int kSize = Traits::kHalf ? 2 : 4;
  const FeatureLanes<kSize, kVector, kLog2Positions, kColumns> lanes(thread);
  FeatureSource<kSize> source(p, block.work, lanes, operands.feature);
  const int columns = p.feature_channels - block.work.first_column, lag = p.smem_stages >= 5 ? 3 : 2;
  StageWalk walk(p, block);
  Ring ring, landed;
  // Runs after a wait for this thread's copies; wgmma reads through another proxy.
  const auto finish = [&] {
    if constexpr (!Traits::kHalf) {
      round_features<kVector, Traits::kSplit>(block.smem, lanes, landed.slot * block.stage_bytes,
                                              static_cast<int>(block.feature_bytes / 2));
    }
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(block.full + 8 * landed.slot);
    landed.advance(p.smem_stages);
  };
  const int stages = static_cast<int>(block.end_stage - block.first_stage);
#pragma unroll 1
  for (int s = 0; s < stages + lag; ++s) {
    if (s >= lag) {
      // Stages after the last are empty groups.
      if (lag == 3) {
        ptx::cp_async_wait<2>();
      } else {
        ptx::cp_async_wait<1>();
      }
      finish();
    }
    if (s < stages) {
      source.move(p, walk.at);
      ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
      const std::uint32_t stage = ring.slot * block.stage_bytes;
      if (columns >= kColumns) {
        copy_features<kSize, kVector, true>(block, lanes, source, stage, columns, operands.feature);
      } else {
        copy_features<kSize, kVector, false>(block, lanes, source, stage, columns, operands.feature);
      }
      walk.advance(p);
      ring.advance(p.smem_stages);
    }
    ptx::cp_async_commit();
  }
}

template <Arithmetic kArithmetic, int kColumns, int kVector>
__device__ __forceinline__ void load_features(const WeightPlan& p, const WeightOperands& operands,
                                              const WgmmaBlock& block, int thread) {
  constexpr int kLeast = wgmma_weight_positions(kColumns, ArithmeticTraits<kArithmetic>::kHalf ? 2 : 1);
  if constexpr (kLeast <= 32) {
    if (p.log2_positions() == 5) return load_features<kArithmetic, kColumns, kVector, 5>(p, operands, block, thread);
  }
  if constexpr (kLeast <= 64) {
    if (p.log2_positions() == 6) return load_features<kArithmetic, kColumns, kVector, 6>(p, operands, block, thread);
  }
  load_features<kArithmetic, kColumns, kVector, 7>(p, operands, block, thread);
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

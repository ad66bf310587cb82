// How conv_weight's wgmma kernel fills shared memory: a warpgroup of its own copies the image as raw rows, and the
// feature to the places that wgmma's swizzle gives it. Stages are a ring with a full and an empty mbarrier each.
//
// wgmma would truncate float32 to tf32, so those features pass through registers, rounded or split on the way, a queue
// of them always under way; everything else comes by cp.async.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/weight_wgmma_feature.cuh>
#include <adjoint/ops/conv/cuda/weight_wgmma_image.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

inline constexpr int kHalfLag = 2;  // stages of halves under way before the first is waited for

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

/// All stages of a block, float32. A stage is full once every loader has arrived twice: by its copies and by its
/// stores.
template <int kColumns, bool kSplit, int kWords, int kVector>
__device__ __forceinline__ void load_words(const WeightPlan& p, const WeightOperands& operands, const WgmmaBlock& block,
                                           int thread) {
  constexpr int kQueue = (kColumns >= 32 ? kWords : 16) / kVector;  // a thread has 16 words of 16 columns
  const FeatureLanes<4, kVector> lanes(p, thread);
  const int batch_columns = kQueue * lanes.column_step;
  const int tail = static_cast<int>(block.feature_bytes / 2);
  Words<kVector> queue[kQueue];
  FeatureSource source(p, block.work, lanes, weight_stage(p, block.first_stage), operands.feature, 4);
  int next_column = lanes.first_column;
  const auto load = [&](int j) {
    const bool valid = next_column < source.channels;
    queue[j] = valid ? __ldg(reinterpret_cast<const Words<kVector>*>(source.first)) : Words<kVector>{};
    source.first += source.step;
    next_column += lanes.column_step;
  };
#pragma unroll
  for (int j = 0; j < kQueue; ++j) load(j);

  WgmmaRing ring;
#pragma unroll 1
  for (std::int64_t s = block.first_stage; s < block.end_stage; ++s) {
    ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
    const std::uint32_t stage = ring.slot * block.stage_bytes, full = block.full + 8 * ring.slot;
    load_wgmma_image<4>(p, block, weight_stage(p, s), operands, stage + block.feature_bytes, thread);
    ptx::mbarrier_arrive_after_cp_async(full);
#pragma unroll 1
    for (int batch = 0; batch < kColumns; batch += batch_columns) {
      if (batch + batch_columns == kColumns) {
        // The next stage's loads start as this one's values leave their registers.
        if (s + 1 < block.end_stage) {
          source = FeatureSource(p, block.work, lanes, weight_stage(p, s + 1), operands.feature, 4);
        } else {
          source.channels = 0;
        }
        next_column = lanes.first_column;
      }
#pragma unroll
      for (int j = 0; j < kQueue; ++j) {
        const int column = batch + j * lanes.column_step + lanes.first_column;
        store_rounded<kVector, kSplit>(block.smem + stage + lanes.place(column), tail, queue[j]);
        load(j);
      }
    }
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(full);
    ring.advance(p.smem_stages);
  }
}

/// All stages of a block, halves. A thread arrives once, some stages later: its copies must be complete before the
/// fence that lets wgmma read them.
template <int kColumns, int kVector>
__device__ __forceinline__ void load_halves(const WeightPlan& p, const WeightOperands& operands,
                                            const WgmmaBlock& block, int thread) {
  const FeatureLanes<2, kVector> lanes(p, thread);
  WgmmaRing ring, arrived;
  const auto arrive = [&] {
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(block.full + 8 * arrived.slot);
    arrived.advance(p.smem_stages);
  };
  int open = 0;
#pragma unroll 1
  for (std::int64_t s = block.first_stage; s < block.end_stage; ++s) {
    ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
    const std::uint32_t stage = ring.slot * block.stage_bytes;
    const WeightStage at = weight_stage(p, s);
    FeatureSource source(p, block.work, lanes, at, operands.feature, 2);
#pragma unroll 8
    for (int column = lanes.first_column; column < kColumns; column += lanes.column_step) {
      const bool valid = column < source.channels;
      copy_or_zero<2 * kVector>(block.smem, block.smem_base, stage + lanes.place(column),
                                valid ? source.first : operands.feature, valid);
      source.first += source.step;
    }
    load_wgmma_image<2>(p, block, at, operands, stage + block.feature_bytes, thread);
    ptx::cp_async_commit();
    if (open == kHalfLag) {
      ptx::cp_async_wait<kHalfLag>();
      arrive();
    } else {
      ++open;
    }
    ring.advance(p.smem_stages);
  }
  ptx::cp_async_wait<0>();
  for (; open > 0; --open) arrive();
}

/// `kWords`: registers for features under way.
template <Arithmetic kArithmetic, int kColumns, int kWords>
__device__ __forceinline__ void load_stages(const WeightPlan& p, const WeightOperands& operands,
                                            const WgmmaBlock& block, int thread) {
  if constexpr (ArithmeticTraits<kArithmetic>::kHalf) {
    if (operands.feature_vector == 8) {
      load_halves<kColumns, 8>(p, operands, block, thread);
    } else if (operands.feature_vector == 4) {
      load_halves<kColumns, 4>(p, operands, block, thread);
    } else if (operands.feature_vector == 2) {
      load_halves<kColumns, 2>(p, operands, block, thread);
    } else {
      load_halves<kColumns, 1>(p, operands, block, thread);
    }
  } else {
    constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
    if (operands.feature_vector == 4) {
      load_words<kColumns, kSplit, kWords, 4>(p, operands, block, thread);
    } else if (operands.feature_vector == 2) {
      load_words<kColumns, kSplit, kWords, 2>(p, operands, block, thread);
    } else {
      load_words<kColumns, kSplit, kWords, 1>(p, operands, block, thread);
    }
  }
}

}  // namespace adjoint::cuda::weight

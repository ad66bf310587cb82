// Shared by the roles of a block of conv_weight's wgmma kernels: its part of the product, its ring of stages, and their
// places in shared memory.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/weight/cuda/common.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kLoaders = 128;    // threads of a warpgroup of loaders

struct WgmmaBlock {
  WeightWork work;
  std::int64_t first_stage, end_stage;
  unsigned char* smem;
  std::uint32_t smem_base;    // the same as an address
  std::uint32_t full, empty;  // mbarriers, of each stage
  std::uint32_t stage_bytes, feature_bytes;
  float* partial;  // the block's tile of its split
};

/// A block's mbarriers; static, so that all dynamic shared memory is left to stages.
struct WgmmaBarriers {
  std::uint64_t full[kMaxWeightStages], landed[kMaxWeightStages], empty[kMaxWeightStages];
};

/// A block's stages in their order, without divisions.
struct StageWalk {
  WeightStage at;

  __device__ __forceinline__ StageWalk(const WeightPlan& p, const WgmmaBlock& block)
      : at(weight_stage(p, block.first_stage)) {}
  __device__ __forceinline__ void advance(const WeightPlan& p) {
    at.w += 1 << p.log2_tile_w;
    if (at.w < p.feature_w) return;
    at.w = 0;
    at.h += 1 << p.log2_tile_h;
    if (at.h < p.feature_h) return;
    at.h = 0;
    at.n += 1 << p.log2_tile_n;
  }
};

/// Sets up the block's part and, by one thread, its barriers, with `arrivals` for a full stage. A __syncthreads must
/// follow.
template <class Tile>
__device__ __forceinline__ WgmmaBlock begin_block(const WeightPlan& p, float* partial, WgmmaBarriers& barriers,
                                                  int arrivals) {
  WgmmaBlock block;
  block.smem = ptx::dynamic_smem();
  // Pinned: the compiler would compute them again at every use.
  std::uint32_t addresses[] = {ptx::shared_address(block.smem), ptx::shared_address(barriers.full),
                               ptx::shared_address(barriers.empty)};
  wgmma::pin(addresses);
  block.smem_base = addresses[0];
  block.full = addresses[1];
  block.empty = addresses[2];
  block.stage_bytes = wgmma_stage_bytes(p, Tile::kSplit);
  block.feature_bytes = wgmma_feature_bytes(p, Tile::kSplit);
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.smem_stages; ++i) {
      ptx::mbarrier_init(block.full + 8 * i, arrivals);
      ptx::mbarrier_init(block.empty + 8 * i, 128 * kMultipliers);
    }
    ptx::fence_mbarrier_init();
  }
  const std::int64_t blocks = p.blocks_per_split();
  const std::int64_t split = blockIdx.x / blocks, index = blockIdx.x % blocks;
  block.work = weight_work(p, index);
  block.first_stage = split * p.stages_per_split;
  block.end_stage = min(block.first_stage + p.stages_per_split, p.stages);
  block.partial = partial + (split * blocks + index) * p.tile_rows * p.tile_columns;
  return block;
}

}  // namespace adjoint::cuda::weight

// The kernel of conv_weight for sm_90a whose stages the copy engine brings (`boxes` in weight/plan.h): two warpgroups
// multiply (weight/cuda/multiply.cuh), and a third fills stages (load.cuh).
#pragma once

#include <adjoint/ops/conv/weight/cuda/boxes/load.cuh>
#include <adjoint/ops/conv/weight/cuda/multiply.cuh>

namespace adjoint::cuda::weight {

inline constexpr int kBoxesThreads = 128 * kMultipliers + kLoaders;

template <Arithmetic kArithmetic, int kMTiles, int kColumns>
__global__ void __launch_bounds__(kBoxesThreads, 1)
    boxes_weight_kernel(const __grid_constant__ WeightPlan p, const __grid_constant__ BoxOperands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  using Tile = WgmmaTile<kArithmetic, kMTiles, kColumns>;
  __shared__ WgmmaBarriers barriers;
  const int thread = static_cast<int>(threadIdx.x);
  const WgmmaBlock block = begin_block<Tile>(p, operands.partial, barriers, loader_arrivals<kArithmetic>(operands));
  const std::uint32_t landed = ptx::shared_address(barriers.landed);
  if (Tile::kSplit && thread == 0) {
    for (int i = 0; i < p.smem_stages; ++i) ptx::mbarrier_init(landed + 8 * i, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::wait_for_earlier_kernels();
  if (thread / 128 == kMultipliers) {
    ptx::lower_register_limit<56>();
    load_boxes<kArithmetic>(p, operands, block, landed, thread % 128);
  } else {
    ptx::raise_register_limit<224>();
    multiply_stages<kArithmetic, kMTiles, kColumns, true>(p, block, thread);
  }
#endif
}

}  // namespace adjoint::cuda::weight

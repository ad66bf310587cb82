// The wgmma kernel of conv_weight for sm_90a; weight/plan.h holds its schedule and index arithmetic.
//
// Two warpgroups multiply (weight/cuda/multiply.cuh), rounding rows' fragments in registers; two fill stages
// (stage.cuh).
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/weight/cuda/copied/stage.cuh>
#include <adjoint/ops/conv/weight/cuda/multiply.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

inline constexpr int kWgmmaThreads = 128 * (kMultipliers + 2);

template <Arithmetic kArithmetic, int kMTiles, int kColumns>
__global__ void __launch_bounds__(kWgmmaThreads, 1)
    wgmma_weight_kernel(const __grid_constant__ WeightPlan p, const WeightOperands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  using Tile = WgmmaTile<kArithmetic, kMTiles, kColumns>;
  __shared__ WgmmaBarriers barriers;
  const int thread = static_cast<int>(threadIdx.x), warpgroup = thread / 128;
  const WgmmaBlock block = begin_block<Tile>(p, operands.partial, barriers, 2 * kLoaders);
  auto* items = reinterpret_cast<uint2*>(block.smem + p.smem_stages * block.stage_bytes);
  fill_items<kWgmmaThreads>(p, operands.image_vector, items);
  __syncthreads();
  ptx::wait_for_earlier_kernels();

  // Sums and totals of 192 registers leave fewer registers to the loaders.
  constexpr bool kLarge = kMTiles * Tile::kSums * (Tile::kSplit ? 2 : 1) > 128;
  if (warpgroup == kMultipliers) {
    ptx::lower_register_limit<kLarge ? 40 : 72>();
    load_features<kArithmetic, kColumns>(p, operands, block, thread % 128);
  } else if (warpgroup == kMultipliers + 1) {
    ptx::lower_register_limit<kLarge ? 40 : 56>();
    load_images<Tile::kHalf ? 2 : 4>(p, operands, block, items, thread % 128);
  } else {
    ptx::raise_register_limit<kLarge ? 216 : 192>();
    multiply_stages<kArithmetic, kMTiles, kColumns, false>(p, block, thread);
  }
#endif
}

}  // namespace adjoint::cuda::weight

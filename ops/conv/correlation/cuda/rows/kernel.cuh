// The tensor-core kernel of conv and conv_transpose for sm_90a; correlation/plan.h holds its schedule and index
// arithmetic.
//
// Positions are wgmma's rows and columns its columns. A fragments are read by LDS straight from the staged raw rows
// (any offset, no bank conflicts because of the pitch); B blocks are packed for the descriptor. The copy engine brings
// the input if it can, else three warps do (stage.cuh; correlation/cuda/roles.cuh has the other roles). No sum depends
// on the grid, on alignment or on the number of multiprocessors.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/correlation/cuda/roles.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/boxes.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/multiply.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/multiply_split.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/stage.cuh>

#include <type_traits>

namespace adjoint::cuda::correlation {

template <Arithmetic kArithmetic, int kColumns, bool kHalves, bool kOneRow, bool kGathers, int kMTiles>
using Multiplier =
    std::conditional_t<ArithmeticTraits<kArithmetic>::kSplit, SplitMultiplier<kColumns, kOneRow, kGathers, kMTiles>,
                       SingleMultiplier<kArithmetic, kColumns, kHalves, kOneRow, kGathers, kMTiles>>;

template <Arithmetic kArithmetic, int kColumns, bool kHalves, bool kOneRow, bool kGathers, int kMTiles, int kConsumers,
          int kBlocksPerSM>
__global__ void __launch_bounds__(128 * (kConsumers + 1), kBlocksPerSM)
    correlation_kernel(const __grid_constant__ CorrelationPlan plan,
                       const __grid_constant__ CorrelationOperands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  using Multiplies = Multiplier<kArithmetic, kColumns, kHalves, kOneRow, kGathers, kMTiles>;
  unsigned char* const smem = ptx::dynamic_smem();
  // Opaque, or every use would recompute the start of the block's shared memory.
  SharedLayout layout =
      lay_out<kConsumers, kColumns, kMTiles, false, kGathers>(plan, ptx::opaque(ptx::shared_address(smem)));
  if constexpr (kGathers) fill_gather(plan, layout, smem + (layout.gather - ptx::shared_address(smem)));
  layout.x_stages = operands.load_bytes == 2 ? plan.x_stages / 2 : plan.x_stages;
  init_barriers<kConsumers>(plan, layout, operands.loads_boxes ? 1 : kLoaderThreads);
  ptx::wait_for_earlier_kernels();
  run_roles<kArithmetic, kColumns, kMTiles, kConsumers, kBlocksPerSM, Multiplies>(
      plan, operands, layout, smem, [&](int warp) {
        if (warp == kLoaderThreads / 32) return;
        if (operands.loads_boxes) {
          if (warp == 0 && threadIdx.x % 32 == 0) copy_input_boxes(plan, operands.in_map, layout);
          return;
        }
        constexpr bool kHalf = ArithmeticTraits<kArithmetic>::kHalf;
        stage_input<kHalf, kGathers>(plan, operands, layout, static_cast<int>(threadIdx.x) - 128 * kConsumers);
      });
#endif
}

}  // namespace adjoint::cuda::correlation

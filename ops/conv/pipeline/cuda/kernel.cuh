// conv and conv_transpose of channels_last tensors, in half precision and TF32 (pipeline/plan.h describes how the work
// is cut). A block stays on its multiprocessor and computes every gridDim'th tile. Two warpgroups multiply and store;
// warps of the third start the copies of boxes and filters, through rings with a full and an empty mbarrier for each
// slot; tiles pass through them without a gap. The first warpgroup is a little ahead, so that one's stores overlap the
// other's products. No sum depends on the grid. If sums are cut into slices, each block of a cluster multiplies
// one.
#pragma once

#include <adjoint/ops/conv/base/cuda/register_split.h>
#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/pipeline/cuda/load.cuh>
#include <adjoint/ops/conv/pipeline/cuda/multiply.cuh>
#include <adjoint/ops/conv/pipeline/cuda/shared.cuh>
#include <adjoint/ops/conv/pipeline/cuda/store.cuh>

namespace adjoint::cuda::pipeline {

template <Arithmetic kArithmetic, int kColumns, wgmma::Major kFilter, bool kSliced, bool kSkips, class T>
__device__ __forceinline__ void multiply_and_store(const PipelinePlan& p, const Operands<T>& operands,
                                                   const Shared& shared, int team) {
  const int thread = static_cast<int>(threadIdx.x) % kTeam, lane = thread % 32;
  Multiplier<kArithmetic, kColumns, kFilter, kSkips> multiplier{.p = p, .shared = shared, .team = team, .lane = lane};
  const Store<T, kColumns> store{p, operands, shared.out + team * p.stage_bytes(), team, thread / 32, lane};
  if (team != 0 && p.lead > 0) ptx::mbarrier_wait(shared.begun, 0);
#pragma unroll 1
  for (int index = first_tile<kSliced>(p); index < p.tiles; index += tile_step()) {
    const PipelineTile tile = pipeline_tile(p, index, team);
    multiplier.multiply_tile(tile, slice_of<kSliced>(p));
    if constexpr (kSliced) {
      const std::uint32_t exchange = shared.boxes + team * p.exchange_bytes();
      ptx::barrier<kPipelineTeams * kTeam>(kTeamsBarrier);
      store.share(exchange, multiplier.sums);
      ptx::cluster_barrier();
      store.add_slices(tile, exchange, ptx::cluster_rank());
    } else {
      store(tile, multiplier.sums);
    }
  }
  if constexpr (kSkips) multiplier.end();
  ptx::bulk_wait_read();
}

/// kFilter: the filter's inner axis, channels (kK) or results (kMN). kSliced: true if the plan has slices.
/// kSkips: the plan's.
template <Arithmetic kArithmetic, int kColumns, wgmma::Major kFilter, bool kSliced, bool kSkips>
__global__ void __launch_bounds__(kPipelineThreads, 1)
    pipeline_kernel(const __grid_constant__ PipelinePlan p,
                    const __grid_constant__ Operands<typename ArithmeticTraits<kArithmetic>::Element> operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  const Shared shared = shared_of(p);
  prefetch_maps(p, operands);
  if (threadIdx.x == 0) init_barriers(p, shared);
  __syncthreads();

  constexpr int kMultipliers = kPipelineTeams * kTeam, kLoaderRegisters = 40;
  constexpr int kRegisters = multiplier_registers(kPipelineThreads, kPipelineThreads - kMultipliers, kLoaderRegisters);
  ptx::wait_for_earlier_kernels();
  const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= kMultipliers / 32) {
    ptx::lower_register_limit<kLoaderRegisters>();
    if (threadIdx.x % 32 == 0) {
      const int loader = warp - kMultipliers / 32;
      if (loader < p.filter_rings()) copy_filters<kFilter, kSliced, kSkips>(p, operands, shared, loader);
      if (loader == kPipelineTeams) copy_boxes<kSliced, kSkips>(p, operands, shared);
    }
    if constexpr (kSliced) ptx::cluster_barrier();
  } else {
    ptx::raise_register_limit<kRegisters>();
    multiply_and_store<kArithmetic, kColumns, kFilter, kSliced, kSkips>(p, operands, shared, warp / kWarpsOfTeam);
  }
  if constexpr (kSliced) ptx::cluster_barrier();  // until the others have read this block's sums
#endif
}

}  // namespace adjoint::cuda::pipeline

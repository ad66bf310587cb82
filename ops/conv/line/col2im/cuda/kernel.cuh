// conv and conv_transpose with few output channels: source times filter by wgmma, taps side by side, and the sums added
// up where they overlap (line/col2im/plan.h describes the division of work). One warpgroup of a block multiplies and
// adds, chunk by chunk: the next chunk's products run while this one's sums are added. An additional warp brings the
// source into a ring of stages with a full and an empty mbarrier each. The filter stays in shared memory.
#pragma once

#include <adjoint/ops/conv/line/col2im/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/line/col2im/cuda/add.cuh>
#include <adjoint/ops/conv/line/col2im/cuda/load.cuh>
#include <adjoint/ops/conv/line/col2im/cuda/multiply.cuh>
#include <adjoint/ops/conv/line/col2im/cuda/store.cuh>

namespace adjoint::cuda::col2im {

/// For one warpgroup: multiplies the block's chunks, adds their sums and stores the results.
template <bool kSplit, int kColumns, int kDepths>
__device__ __forceinline__ void multiply_and_add(const Col2imPlan& p, const Operands& operands, const Shared& shared,
                                                 int thread, int warp, int lane) {
  pack_filter<kSplit, kColumns>(p, operands.filter, shared.filter, thread);
  auto* const zeros = reinterpret_cast<uint4*>(shared.sums);
  for (int i = thread; i < (p.sum_elements() + p.ring_elements()) / 4; i += kCol2imConsumers) {
    zeros[i] = make_uint4(0, 0, 0, 0);
  }
  ptx::fence_async_proxy();
  ptx::barrier<kCol2imConsumers>(1);
  Multiplier<kSplit, kColumns, kDepths> multiplier{p, shared};
  Rows rows(p, operands, shared);
  Chunks next(p), chunk = next;
  const auto add = [&] {
    if (chunk.chunk == 0) {
      rows.store_before(chunk.index, chunk.row, thread);
      ptx::barrier<kCol2imConsumers>(1);  // the ring's places that this row uses are zeros
    }
    add_sums(p, shared, chunk, thread);
  };
  if (next.left()) {
    multiplier.begin(warp, lane);
    // Products are begun on the path that continues: where paths join, the compiler would wait for the products.
#pragma unroll 1
    for (;;) {
      chunk = next;
      if constexpr (!kSplit) multiplier.finish();
      ptx::barrier<kCol2imConsumers>(1);  // all earlier sums have been added
      multiplier.store(p.w.source - chunk.column(), warp, lane);
      if (chunk.chunk == 0) find_results(p, shared, chunk.tile, chunk.row, thread);
      ptx::barrier<kCol2imConsumers>(1);
      next.next();
      if (!next.left()) break;
      multiplier.begin(warp, lane);
      add();
    }
    add();
    ptx::barrier<kCol2imConsumers>(1);
  }
  rows.store_before(static_cast<int>(p.blocks()), 0, thread);
}

template <Arithmetic kArithmetic, int kColumns, int kDepths>
__global__ void __launch_bounds__(kCol2imThreads, 2)
    col2im_kernel(const __grid_constant__ Col2imPlan p, const __grid_constant__ Operands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
  const Shared shared = shared_of(p);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int warp = __shfl_sync(0xffffffff, thread / 32, 0);
  if (thread == 0) {
    for (int i = 0; i < p.source_stages; ++i) {
      ptx::mbarrier_init(shared.full + 8 * i, operands.vectors ? 1 : 32);
      ptx::mbarrier_init(shared.empty + 8 * i, kCol2imConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == kCol2imConsumers / 32) {
    bring_source<kSplit>(p, operands, shared, lane);
  } else {
    multiply_and_add<kSplit, kColumns, kDepths>(p, operands, shared, thread, warp, lane);
  }
#endif
}

}  // namespace adjoint::cuda::col2im

// The parts of a block of the tensor-core kernels of conv and conv_transpose: the layout of its shared memory, and the
// roles of its warpgroups. All but the last multiply and store, each its share of a tile's positions. In the last one,
// one thread of the fourth warp streams filter blocks, and the other warps bring the input. Stages and slots are rings
// with a full and an empty mbarrier each.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/correlation/cuda/filter/stream.cuh>
#include <adjoint/ops/conv/correlation/cuda/layout.cuh>
#include <adjoint/ops/conv/correlation/cuda/store/boxes.cuh>
#include <adjoint/ops/conv/correlation/cuda/store/store.cuh>
#include <adjoint/ops/conv/correlation/cuda/store/sums.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// A warp's staging rows for results, or boxes in their place: they come first in the block's shared memory.
template <int kColumns, int kMTiles, bool kBlocked>
inline constexpr int kStagingFloats = correlation_staged_columns(kColumns, kBlocked) *
                                      (correlation_staged_positions(kMTiles, kBlocked) + 4);

/// From the shared address of the block's memory.
template <int kConsumers, int kColumns, int kMTiles, bool kBlocked, bool kGathers>
__device__ __forceinline__ SharedLayout lay_out(const CorrelationPlan& plan, std::uint32_t smem) {
  const CorrelationSmem at = correlation_smem(plan, kConsumers, kColumns, kMTiles, kBlocked, kGathers);
  SharedLayout layout{};
  layout.x_full = smem + at.barriers;
  layout.x_empty = layout.x_full + 8 * kMaxStages;
  layout.w_full = layout.x_empty + 8 * kMaxStages;
  layout.w_empty = layout.w_full + 8 * kMaxSlots;
  layout.w = smem + at.w;
  layout.items = smem + at.items;
  layout.gather = layout.zeros = smem + at.gather;
  layout.x = smem + at.x;
  layout.x_stages = plan.x_stages;
  return layout;
}

/// `x_arrivals`: the number of arrivals that fill a stage of the input.
template <int kConsumers>
__device__ __forceinline__ void init_barriers(const CorrelationPlan& plan, const SharedLayout& layout, int x_arrivals) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.x_stages; ++i) {
      ptx::mbarrier_init(layout.x_full + 8 * i, x_arrivals);
      ptx::mbarrier_init(layout.x_empty + 8 * i, 128 * kConsumers);
    }
    for (int i = 0; i < plan.w_slots; ++i) {
      ptx::mbarrier_init(layout.w_full + 8 * i, 1);
      ptx::mbarrier_init(layout.w_empty + 8 * i, 4 * kConsumers * plan.cluster);
    }
    ptx::fence_mbarrier_init();
  }
  // A cluster's blocks touch each other's barriers: only after they are initialised, and before a block has ended.
  if (plan.cluster > 1) {
    ptx::cluster_barrier();
  } else {
    __syncthreads();
  }
}

/// Result: the dtype of the stored elements, unless operands.partial says otherwise.
template <class Result, Arithmetic kArithmetic, int kColumns, int kMTiles, class Multiplier>
__device__ __forceinline__ void multiply_and_store(const CorrelationPlan& p, const CorrelationOperands& operands,
                                                   const SharedLayout& layout, float* biases, unsigned char* smem,
                                                   int warpgroup, int warp, int lane) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr bool kApart = Multiplier::kApart;
  const int first_m = warpgroup * 64 * kMTiles + warp * 16 * (kApart ? 1 : kMTiles);
  Multiplier multiplier(p, operands, layout, first_m, lane);
  const int tiles = static_cast<int>(p.tiles());
  const bool fills = operands.bias != nullptr;
  if (!fills) {
    for (int place = warp * 32 + lane; place < kColumns; place += 128) biases[place] = 0;
    ptx::barrier<128>(warpgroup + 1);
  }
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    int class_index;
    {
      const CorrelationWork work = correlation_work(p, tile);
      class_index = work.class_index;
      if (fills) {
        // The other warps of this warpgroup may still read the last tile's columns.
        ptx::barrier<128>(warpgroup + 1);
        fill_biases(p, work, static_cast<const T*>(operands.bias), biases, warp * 32 + lane);
      }
    }
    multiplier.multiply_tile(class_index);
    if (fills) ptx::barrier<128>(warpgroup + 1);
    // Recomputed rather than held in registers through the loop.
    const CorrelationWork work = correlation_work(p, ptx::opaque(tile));
    const auto store = [&](const auto& sums) {
      const int staging_warp = warpgroup * 4 + warp;
      if constexpr (!Traits::kHalf) {
        if constexpr (kColumns >= kFewestColumnsFromRegisters) {
          if (operands.stores_sums) {
            return store_sums<kApart, kColumns, kMTiles>(p, work, static_cast<float*>(operands.out), sums, biases,
                                                         first_m, lane);
          }
        }
        if (operands.stores_boxes) {
          constexpr int kBytes =
              4 * correlation_staged_columns(kColumns, kApart) * correlation_staged_positions(kMTiles, kApart);
          return store_tile_in_boxes<kApart, kColumns, kMTiles>(p, operands, work, sums, biases,
                                                                smem + staging_warp * kBytes, first_m, lane);
        }
      }
      auto* const staging = reinterpret_cast<float*>(smem) + staging_warp * kStagingFloats<kColumns, kMTiles, kApart>;
      if constexpr (Traits::kHalf && !kApart) {
        if (operands.partial) {
          return store_tile<float, kApart, kColumns, kMTiles>(p, operands, work, sums, biases, staging, first_m, lane);
        }
      }
      store_tile<Result, kApart, kColumns, kMTiles>(p, operands, work, sums, biases, staging, first_m, lane);
    };
    if constexpr (Traits::kSplit) {
      store(multiplier.totals);
    } else {
      store(multiplier.sums);
    }
  }
  if (operands.stores_boxes) ptx::bulk_wait_read();  // before another block gets this shared memory
}

/// All of a block's work after its barriers are initialised. `bring_input(warp)`: the work of the last warpgroup's
/// warps besides the filter. Multiplier::kApart: the positions of its warps' m-tiles are 64 apart. Multiplier::kPaired:
/// it processes steps of half a tile's columns in pairs. Result: as in multiply_and_store.
template <Arithmetic kArithmetic, int kColumns, int kMTiles, int kConsumers, int kBlocksPerSM, class Multiplier,
          class Result = typename ArithmeticTraits<kArithmetic>::Element, class BringInput>
__device__ __forceinline__ void run_roles(const CorrelationPlan& plan, const CorrelationOperands& operands,
                                          const SharedLayout& layout, unsigned char* smem,
                                          const BringInput& bring_input) {
  auto* biases = reinterpret_cast<float*>(
      smem + correlation_smem(plan, kConsumers, kColumns, kMTiles, Multiplier::kApart, false).bias);
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  // The multipliers take the registers that the loaders release: together the block's initial number, or they would
  // wait endlessly.
  constexpr int kThreads = 128 * (kConsumers + 1), kAtStart = 65536 / kBlocksPerSM / kThreads / 8 * 8;
  constexpr int kLoaderRegisters = kAtStart == 168 ? 88 : 64;
  constexpr int kRegisters = (kAtStart * (kConsumers + 1) - kLoaderRegisters) / kConsumers;
  if (warpgroup == kConsumers) {
    ptx::lower_register_limit<kLoaderRegisters>();
    bring_input(warp);
    if (warp == 3 && lane == 0) stream_filter<Multiplier::kPaired>(plan, operands, layout);
  } else {
    ptx::raise_register_limit<kRegisters>();
    multiply_and_store<Result, kArithmetic, kColumns, kMTiles, Multiplier>(plan, operands, layout,
                                                                           biases + warpgroup * kColumns, smem,
                                                                           warpgroup, warp, lane);
  }
  if (plan.cluster > 1) ptx::cluster_barrier();
}

}  // namespace adjoint::cuda::correlation

// Convolutions that are products of matrices, in half precision and TF32, by wgmma from shared memory (product/plan.h
// describes how the work is cut). A block stays on its multiprocessor and computes every gridDim'th tile. Two
// warpgroups multiply and store, taking turns with tiles, so that one's stores overlap the other's products; a thread
// of the third starts the copies of both factors, through rings with a full and an empty mbarrier for each slot; tiles
// pass through them without a gap. No sum depends on the grid.
#pragma once

#include <adjoint/ops/conv/base/cuda/register_split.h>
#include <adjoint/ops/conv/product/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>
#include <adjoint/ops/conv/product/cuda/factors.cuh>
#include <adjoint/ops/conv/product/cuda/store.cuh>

#include <cstdint>

namespace adjoint::cuda::product {

/// A team's products and their sums.
template <Arithmetic kArithmetic, wgmma::Major kRows, wgmma::Major kColumns>
struct Multiplier {
  Sums sums = {};
  Ring row_ring, column_ring;

  __device__ __forceinline__ void pin() {
    wgmma::pin(sums[0]);
    wgmma::pin(sums[1]);
  }

  /// All products of a tile.
  __device__ __forceinline__ void multiply_tile(const ProductPlan& p, const Shared& shared, int stages) {
    constexpr wgmma::Operand kOperand = kWgmmaOperand<kArithmetic>;
    constexpr int kProducts = 4;  // of a stage, each 32 bytes of a line that runs along the depth
    const std::uint64_t rows = wgmma::block_descriptor<kRows>(shared.rows);
    const std::uint64_t columns = wgmma::block_descriptor<kColumns>(shared.columns);
    const int second_a = p.second_row_block() * (kProductBlockBytes / 16),
              second_b = p.second_column_block() * (kProductBlockBytes / 16);
    // Barriers of the data that the products in flight read; 0: no barrier.
    std::uint32_t used_rows = 0, used_columns = 0;
    const auto release = [&] {
      if (used_columns == 0) return;
      if (!p.rows_stay) ptx::mbarrier_arrive(used_rows);
      ptx::mbarrier_arrive(used_columns);
    };
    int accumulate = 0;
    // Pinned once: while products are in flight nothing else may seem to touch their sums, or the compiler waits for
    // them.
    pin();
    wgmma::fence();
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_wait(shared.rows_full + 8 * row_ring.slot, row_ring.parity);
      ptx::mbarrier_wait(shared.columns_full + 8 * column_ring.slot, column_ring.parity);
      const std::uint64_t a = wgmma::moved(rows, row_ring.slot * (p.row_slot_bytes() / 16));
      const std::uint64_t b = wgmma::moved(columns, column_ring.slot * (p.column_slot_bytes() / 16));
#pragma unroll
      for (int i = 0; i < kProducts; ++i) {
        const std::uint64_t row = wgmma::moved(a, i * wgmma::kMajorStep<kRows>);
        const std::uint64_t column = wgmma::moved(b, i * wgmma::kMajorStep<kColumns>);
        wgmma::multiply_blocks<kOperand, kRows, kColumns>(sums[0], row, column, accumulate);
        wgmma::multiply_blocks<kOperand, kRows, kColumns>(sums[1], wgmma::moved(row, second_a),
                                                          wgmma::moved(column, second_b), accumulate);
        accumulate = 1;
      }
      wgmma::commit();
      wgmma::wait<1>();
      release();
      used_rows = shared.rows_empty + 8 * row_ring.slot;
      used_columns = shared.columns_empty + 8 * column_ring.slot;
      if (p.rows_stay) {
        row_ring.slot = stage + 1 == stages ? 0 : stage + 1;
      } else {
        row_ring.advance(p.row_slots);
      }
      column_ring.advance(p.column_slots);
    }
    ptx::mbarrier_arrive(shared.begun);
    wgmma::wait<0>();
    release();
    pin();
  }

  /// Skips another team's tile.
  __device__ __forceinline__ void skip_tile(const ProductPlan& p, int index) {
    if (index >= p.tiles()) return;
    const int stages = product_tile(p, index).stages;
    if (!p.rows_stay) row_ring.skip(stages, p.row_slots);
    column_ring.skip(stages, p.column_slots);
  }
};

/// A team's tiles: every kProductTeams'th of the block's, from the `team`th on.
template <Arithmetic kArithmetic, wgmma::Major kRows, wgmma::Major kColumns>
__device__ __forceinline__ void multiply_and_store(
    const ProductPlan& p, const Operands<typename ArithmeticTraits<kArithmetic>::Element>& operands,
    const Shared& shared, int team) {
  static_assert(kProductTeams == 2);
  Multiplier<kArithmetic, kRows, kColumns> multiplier;
  const int thread = static_cast<int>(threadIdx.x) % kProductTeam, barrier = team + 1, tiles = p.tiles();
  float* const biases = shared.biases + team * kProductBiases;
  unsigned char* const out = shared.out + (p.out_buffers - 1) * team * kProductOutBytes;
  // The phase of the tile before: a team's tiles are the odd or the even ones of the block's.
  const std::uint32_t parity = static_cast<std::uint32_t>(team + 1) & 1;
  if (team > 0) multiplier.skip_tile(p, first_tile());
#pragma unroll 1
  for (int index = first_tile() + team * tile_step(); index < tiles; index += kProductTeams * tile_step()) {
    const ProductTile tile = product_tile(p, index);
    fill_biases(p, tile, operands, biases, thread);
    // A barrier distinguishes only two phases, so each team waits for a phase only after the other has seen the
    // previous one.
    ptx::mbarrier_wait(shared.begun, parity);
    multiplier.multiply_tile(p, shared, tile.stages);
    if (p.out_buffers == 1) ptx::mbarrier_wait(shared.stored, parity);
    const Store<typename ArithmeticTraits<kArithmetic>::Element> store{p, operands, tile, biases, out, thread, barrier};
    bool stored = false;
    if constexpr (ArithmeticTraits<kArithmetic>::kHalf) {
      stored = operands.stores_boxes;
      if (stored) store.write_boxes(multiplier.sums);
    }
    if (!stored) store.write_rows(multiplier.sums);
    if (p.out_buffers == 1) {
      ptx::bulk_wait_read();
      ptx::mbarrier_arrive(shared.stored);
    }
    multiplier.skip_tile(p, index + tile_step());
  }
  ptx::bulk_wait_read();
}

template <Arithmetic kArithmetic, wgmma::Major kRows, wgmma::Major kColumns>
__global__ void __launch_bounds__(kProductThreads, 1)
    product_kernel(const __grid_constant__ ProductPlan p,
                   const __grid_constant__ Operands<typename ArithmeticTraits<kArithmetic>::Element> operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  const Shared shared = shared_of(p);
  if (threadIdx.x == 0) init_barriers(shared, 1);
  __syncthreads();

  constexpr int kMultipliers = kProductTeams * kProductTeam, kLoaders = kProductThreads - kMultipliers;
  constexpr int kLoaderRegisters = 40;
  constexpr int kRegisters = multiplier_registers(kProductThreads, kLoaders, kLoaderRegisters);
  ptx::wait_for_earlier_kernels();
  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup >= kMultipliers / 128) {
    ptx::lower_register_limit<kLoaderRegisters>();
    constexpr bool kTaps = kRows == wgmma::Major::kK && kColumns == wgmma::Major::kK;
    if (static_cast<int>(threadIdx.x) == kMultipliers) copy_factors<kRows, kColumns, kTaps>(p, operands, shared);
  } else {
    ptx::raise_register_limit<kRegisters>();
    multiply_and_store<kArithmetic, kRows, kColumns>(p, operands, shared, warpgroup);
  }
#endif
}

}  // namespace adjoint::cuda::product

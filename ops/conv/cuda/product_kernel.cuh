// Convolutions that are products of matrices, in half precision and TF32, by wgmma from shared memory (product_plan.h
// tells how the work is cut). A block stays on its multiprocessor and takes every gridDim'th tile. Two warpgroups
// multiply and store, a tile each in turn, so that one's stores fall into the other's products; a thread of the third
// has both factors copied, through rings with a full and an empty mbarrier a slot, and tiles follow each other through
// them. No sum depends on the grid.
#pragma once

#include <adjoint/ops/conv/cuda/register_split.h>
#include <adjoint/ops/conv/product_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/cuda/product_store.cuh>
#include <adjoint/ops/conv/cuda/ring.cuh>
#include <adjoint/ops/conv/cuda/wgmma_operand.cuh>

#include <cstdint>

namespace adjoint::cuda::product {

/// Where a block's shared memory lies.
struct Shared {
  // Shared addresses of mbarriers, one a slot of each ring.
  std::uint32_t rows_full, rows_empty, columns_full, columns_empty;
  // Of tiles, a phase each: all products are begun; `out` is stored.
  std::uint32_t begun, stored;
  float* biases;                // [team][row or column]
  std::uint32_t rows, columns;  // slots, shared addresses
  unsigned char* out;           // buffers
};

__device__ __forceinline__ Shared shared_of(const ProductPlan& p) {
  unsigned char* const smem = ptx::dynamic_smem();
  Shared shared;
  shared.rows_full = ptx::shared_address(smem);
  shared.rows_empty = shared.rows_full + 8 * kMostProductSlots;
  shared.columns_full = shared.rows_empty + 8 * kMostProductSlots;
  shared.columns_empty = shared.columns_full + 8 * kMostProductSlots;
  shared.begun = shared.columns_empty + 8 * kMostProductSlots;
  shared.stored = shared.begun + 8;
  constexpr int kBiasBytes = 4 * kProductTeams * kProductBiases;
  static_assert(8 * (4 * kMostProductSlots + 2) + kBiasBytes <= kProductTableBytes);
  shared.biases = reinterpret_cast<float*>(smem + kProductTableBytes - kBiasBytes);
  shared.rows = ptx::shared_address(smem + kProductTableBytes);
  shared.columns = shared.rows + p.row_slots * p.row_slot_bytes();
  shared.out = smem + kProductTableBytes + p.row_slots * p.row_slot_bytes() + p.column_slots * p.column_slot_bytes();
  return shared;
}

__device__ __forceinline__ void init_barriers(const Shared& shared) {
  for (int i = 0; i < kMostProductSlots; ++i) {
    ptx::mbarrier_init(shared.rows_full + 8 * i, 1);
    ptx::mbarrier_init(shared.rows_empty + 8 * i, kProductTeam);
    ptx::mbarrier_init(shared.columns_full + 8 * i, 1);
    ptx::mbarrier_init(shared.columns_empty + 8 * i, kProductTeam);
  }
  ptx::mbarrier_init(shared.begun, kProductTeam);
  ptx::mbarrier_init(shared.stored, kProductTeam);
  ptx::fence_mbarrier_init();
}

/// A block's tiles: every gridDim'th.
__device__ __forceinline__ int first_tile() { return static_cast<int>(blockIdx.x); }
__device__ __forceinline__ int tile_step() { return static_cast<int>(gridDim.x); }

/// Has a block of a factor copied.
template <wgmma::Major kMajor>
__device__ __forceinline__ void copy_block(const TensorMap& map, std::uint32_t to, std::uint32_t full, int depth,
                                           int group, const ProductPlace& place) {
  constexpr bool kByDepth = kMajor == wgmma::Major::kK;
  const int at[kTensorMapAxes] = {kByDepth ? depth : place.first, kByDepth ? place.first : depth, group, place.sample,
                                  0};
  ptx::tensor_copy(to, &map, at, full);
}

/// Has the factors of a block's tiles copied; one thread. Where a tile ends before its last block, what was there is
/// multiplied, for sums that nobody stores.
template <wgmma::Major kRows, wgmma::Major kColumns, class T>
__device__ __forceinline__ void copy_factors(const ProductPlan& p, const Operands<T>& operands, const Shared& shared) {
  const int tiles = p.tiles();
  Ring row_ring, column_ring;
#pragma unroll 1
  for (int index = first_tile(); index < tiles; index += tile_step()) {
    const ProductTile tile = product_tile(p, index);
    const bool copies_rows = !p.rows_stay || index == first_tile();
#pragma unroll 1
    for (int stage = tile.stage; stage < tile.stage + tile.stages; ++stage) {
      const ProductPlace depth = product_place(p.depth_blocks_divider, stage, p.depth_block);
      if (copies_rows) {
        const std::uint32_t full = shared.rows_full + 8 * row_ring.slot;
        const std::uint32_t to = shared.rows + row_ring.slot * p.row_slot_bytes();
        ptx::mbarrier_wait(shared.rows_empty + 8 * row_ring.slot, row_ring.parity ^ 1);
        ptx::mbarrier_arrive_expect_bytes(full, tile.row_blocks * kProductBlockBytes);
#pragma unroll 1
        for (int i = 0; i < tile.row_blocks; ++i) {
          copy_block<kRows>(operands.rows, to + i * kProductBlockBytes, full, depth.first, tile.group,
                            {depth.sample, tile.row + i * kProductBlock});
        }
        row_ring.advance(p.row_slots);
      }
      const std::uint32_t full = shared.columns_full + 8 * column_ring.slot;
      const std::uint32_t to = shared.columns + column_ring.slot * p.column_slot_bytes();
      ptx::mbarrier_wait(shared.columns_empty + 8 * column_ring.slot, column_ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_bytes(full, tile.column_blocks * kProductBlockBytes);
#pragma unroll 1
      for (int i = 0; i < tile.column_blocks; ++i) {
        const ProductPlace place = product_place(p.column_blocks_divider, tile.column_block + i);
        copy_block<kColumns>(operands.columns, to + i * kProductBlockBytes, full, depth.first, tile.group,
                             {place.sample + depth.sample, place.first});
      }
      column_ring.advance(p.column_slots);
    }
  }
}

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
    constexpr int kProducts = 4;  // of a stage, each 32 bytes of a line where that is along the depth
    const std::uint64_t rows = wgmma::block_descriptor<kRows>(shared.rows);
    const std::uint64_t columns = wgmma::block_descriptor<kColumns>(shared.columns);
    const int second_a = p.second_row_block() * (kProductBlockBytes / 16),
              second_b = p.second_column_block() * (kProductBlockBytes / 16);
    // Barriers of what the products under way read; 0: none.
    std::uint32_t used_rows = 0, used_columns = 0;
    const auto release = [&] {
      if (used_columns == 0) return;
      if (!p.rows_stay) ptx::mbarrier_arrive(used_rows);
      ptx::mbarrier_arrive(used_columns);
    };
    int accumulate = 0;
    // Once: while products are under way nothing else may seem to touch their sums, or the compiler waits for them.
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

  /// Past another team's tile.
  __device__ __forceinline__ void skip_tile(const ProductPlan& p, int index) {
    if (index >= p.tiles()) return;
    const int stages = product_tile(p, index).stages;
    if (!p.rows_stay) row_ring.skip(stages, p.row_slots);
    column_ring.skip(stages, p.column_slots);
  }
};

/// A team's tiles: of the block's, every kProductTeams'th from the `team`th on.
template <Arithmetic kArithmetic, wgmma::Major kRows, wgmma::Major kColumns>
__device__ __forceinline__ void multiply_and_store(
    const ProductPlan& p, const Operands<typename ArithmeticTraits<kArithmetic>::Element>& operands,
    const Shared& shared, int team) {
  static_assert(kProductTeams == 2);
  Multiplier<kArithmetic, kRows, kColumns> multiplier;
  const int thread = static_cast<int>(threadIdx.x) % kProductTeam, barrier = team + 1, tiles = p.tiles();
  float* const biases = shared.biases + team * kProductBiases;
  unsigned char* const out = shared.out + (p.out_buffers - 1) * team * kProductOutBytes;
  // Of the tile before: a team's tiles are the odd ones of the block's, or the even ones.
  const std::uint32_t parity = static_cast<std::uint32_t>(team + 1) & 1;
  if (team > 0) multiplier.skip_tile(p, first_tile());
#pragma unroll 1
  for (int index = first_tile() + team * tile_step(); index < tiles; index += kProductTeams * tile_step()) {
    const ProductTile tile = product_tile(p, index);
    fill_biases(p, tile, operands, biases, thread);
    // A barrier tells two phases apart: none is waited for before the other team has seen the last.
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
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which nothing launches
  const Shared shared = shared_of(p);
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();

  constexpr int kMultipliers = kProductTeams * kProductTeam, kLoaders = kProductThreads - kMultipliers;
  constexpr int kLoaderRegisters = 40;
  constexpr int kRegisters = multiplier_registers(kProductThreads, kLoaders, kLoaderRegisters);
  ptx::wait_for_earlier_kernels();
  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup >= kMultipliers / 128) {
    ptx::lower_register_limit<kLoaderRegisters>();
    if (static_cast<int>(threadIdx.x) == kMultipliers) copy_factors<kRows, kColumns>(p, operands, shared);
  } else {
    ptx::raise_register_limit<kRegisters>();
    multiply_and_store<kArithmetic, kRows, kColumns>(p, operands, shared, warpgroup);
  }
#endif
}

}  // namespace adjoint::cuda::product

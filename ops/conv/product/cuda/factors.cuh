// Shared by the kernels for products of matrices (kernel.cuh, positions_kernel.cuh): the layout of a block's shared
// memory, and the thread that starts the copies of both factors, through rings with a full and an empty mbarrier for
// each slot.
#pragma once

#include <adjoint/ops/conv/product/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/product/cuda/store.cuh>

#include <cstdint>

namespace adjoint::cuda::product {

/// The layout of a block's shared memory.
struct Shared {
  // Shared addresses of mbarriers, one for each slot of each ring.
  std::uint32_t rows_full, rows_empty, columns_full, columns_empty;
  // One phase a tile: all products are begun; `out` is stored.
  std::uint32_t begun, stored;
  float* biases;                // [team][row or column]
  std::uint32_t rows, columns;  // slots, shared addresses
  const unsigned char* column_data;
  unsigned char* out;  // buffers
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
  shared.column_data = smem + kProductTableBytes + p.row_slots * p.row_slot_bytes();
  shared.out = smem + kProductTableBytes + p.row_slots * p.row_slot_bytes() + p.column_slots * p.column_slot_bytes();
  return shared;
}

/// `teams`: teams that read a slot.
__device__ __forceinline__ void init_barriers(const Shared& shared, int teams) {
  for (int i = 0; i < kMostProductSlots; ++i) {
    ptx::mbarrier_init(shared.rows_full + 8 * i, 1);
    ptx::mbarrier_init(shared.rows_empty + 8 * i, teams * kProductTeam);
    ptx::mbarrier_init(shared.columns_full + 8 * i, 1);
    ptx::mbarrier_init(shared.columns_empty + 8 * i, teams * kProductTeam);
  }
  ptx::mbarrier_init(shared.begun, kProductTeam);
  ptx::mbarrier_init(shared.stored, kProductTeam);
  ptx::fence_mbarrier_init();
}

/// A block's tiles: every gridDim'th.
__device__ __forceinline__ int first_tile() { return static_cast<int>(blockIdx.x); }
__device__ __forceinline__ int tile_step() { return static_cast<int>(gridDim.x); }

/// Starts the copy of a block of a factor.
template <wgmma::Major kMajor>
__device__ __forceinline__ void copy_block(const TensorMap& map, std::uint32_t to, std::uint32_t full, int depth,
                                           int group, const ProductPlace& place) {
  constexpr bool kByDepth = kMajor == wgmma::Major::kK;
  const int at[kTensorMapAxes] = {kByDepth ? depth : place.first, kByDepth ? place.first : depth, group, place.sample,
                                  0};
  ptx::tensor_copy(to, &map, at, full);
}

/// Starts the copies of the factors of a block's tiles; one thread. If a tile ends before its last block, old values
/// are multiplied there; their sums are not stored. kTaps: true if columns may belong to taps.
template <wgmma::Major kRows, wgmma::Major kColumns, bool kTaps, class T>
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
      ptx::mbarrier_arrive_expect_bytes(full, tile.column_blocks * p.column_block_bytes());
      // This thread is short of time, so it looks up only the values it needs.
      const auto copy_columns = [&](const auto& shift_of) {
#pragma unroll 1
        for (int i = 0; i < tile.column_blocks; ++i) {
          const ProductPlace place = product_place(p.column_blocks_divider, tile.column_block + i, p.column_block);
          const ProductShift shift = shift_of(place.sample);
          copy_block<kColumns>(operands.columns, to + i * p.column_block_bytes(), full, depth.first + shift.depth,
                               tile.group + shift.group, {depth.sample + shift.sample, place.first});
        }
      };
      if (kTaps && p.taps > 0) {
        copy_columns([&](int tap) { return p.tap_list[tap].shift(); });
      } else {
        copy_columns([](int sample) { return ProductShift{0, sample, 0}; });
      }
      column_ring.advance(p.column_slots);
    }
  }
}

}  // namespace adjoint::cuda::product

// conv and conv_transpose with few results a position and several taps, by wgmma from shared memory (line/packed/plan.h
// describes how the work is cut). A block stays on its multiprocessor and computes every gridDim'th tile. Two of its
// warpgroups multiply and store, taking turns with tiles, so that one's stores overlap the other's products. In the
// third, all warps but one pack the source, and one thread of the last warp starts the copies of the source and the
// filter. The source's stages, raw and packed, and the filter's slots are rings with a full and an empty mbarrier for
// each place; tiles pass through them without a gap. No sum depends on the grid.
#pragma once

#include <adjoint/ops/conv/base/cuda/register_split.h>
#include <adjoint/ops/conv/line/packed/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/add_sum.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>
#include <adjoint/ops/conv/line/packed/cuda/load.cuh>
#include <adjoint/ops/conv/line/packed/cuda/store.cuh>

#include <cstdint>

namespace adjoint::cuda::packed {

/// A warpgroup's products and their sums.
template <Arithmetic kArithmetic>
struct Multiplier {
  static constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
  static constexpr int kPositions = packed_positions(kSplit), kSums = kPositions / 2;

  float sums[kSums] = {};
  /// If float32 is split: the sums of a few products are added to these by ordinary instructions, which round.
  float totals[kSplit ? kSums : 1] = {};
  Ring source_ring, filter_ring;

  __device__ __forceinline__ const auto& results() const {
    if constexpr (kSplit) {
      return totals;
    } else {
      return sums;
    }
  }

  /// Begins products that each read the source `step` elements after the previous one. `accumulate`: 0 if their sums
  /// begin with them.
  __device__ __forceinline__ void begin_products(const PackedPlan& p, std::uint64_t source, std::uint64_t filter,
                                                 int products, int step, int accumulate) {
    constexpr wgmma::Operand kKind = kWgmmaOperand<kArithmetic>;
    constexpr int kProduct = (kSplit ? 2 : 1) * 2 * kPackedResults;  // vectors of a product's filter
    if constexpr (kSplit) {
      std::uint64_t a = filter, b = source;
#pragma unroll 1
      for (int i = 0; i < products; ++i) {
        wgmma::multiply_shared<kKind, kPositions>(sums, wgmma::moved(a, 2 * kPackedResults), b, accumulate);
        wgmma::multiply_shared<kKind, kPositions>(sums, a, wgmma::moved(b, 2 * p.length), 1);
        accumulate = 1;
        a = wgmma::moved(a, kProduct);
        b = wgmma::moved(b, step);
      }
    }
    // A product waits for the descriptors' additions, one after the other.
#pragma unroll(kSplit ? 1 : 4)
    for (int i = 0; i < products; ++i) {
      wgmma::multiply_shared<kKind, kPositions>(sums, filter, source, accumulate);
      accumulate = 1;
      source = wgmma::moved(source, step);
      filter = wgmma::moved(filter, kProduct);
    }
  }

  template <class Add>
  __device__ __forceinline__ void add_to_totals(const Add& add) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) totals[i] = add(totals[i], sums[i]);
  }

  /// All products of a tile.
  __device__ __forceinline__ void multiply_tile(const PackedPlan& p, const Shared& shared) {
    const int stages = p.stages(), row_products = p.row_products();
    const std::uint32_t turns = p.filter_stays ? 0 : 1;
    // If a row is one product, the loop runs down a column of products without branches.
    const bool down = !kSplit && row_products == 1;
    const std::uint64_t source =
        wgmma::moved(wgmma::matrix_descriptor(ptx::shared_address(shared.packed), 16 * p.length), p.offset_place(0, 0));
    const std::uint64_t filter = wgmma::matrix_descriptor(ptx::shared_address(shared.filter), 16 * kPackedResults);
    // Barriers of the data that the products in flight read; 0: no barrier.
    std::uint32_t used_stage = 0, used_slot = 0;
    const auto release = [&] {
      if (used_slot != 0 && !p.filter_stays) ptx::mbarrier_arrive(used_slot);
      if (used_stage != 0) ptx::mbarrier_arrive(used_stage);
    };
    int accumulate = 0;
    bool waiting = false;  // sums, to be added to totals
    // Pinned once: while products are in flight nothing else may seem to touch their sums, or the compiler waits for
    // them.
    wgmma::pin(sums);
    wgmma::fence();
#pragma unroll 1
    for (int index = 0; index < stages; ++index) {
      ptx::mbarrier_wait(shared.source_full + 8 * source_ring.slot, source_ring.parity);
      std::uint64_t row = wgmma::moved(source, source_ring.slot * (p.stage_bytes() / 16));
#pragma unroll 1
      for (int h = 0; h < p.h.offsets; h += p.slot_rows) {
#pragma unroll 1
        for (int w = 0; w < row_products; w += p.slot_columns) {
          const int rows = min(p.slot_rows, p.h.offsets - h), columns = min(p.slot_columns, row_products - w);
          ptx::mbarrier_wait(shared.filter_full + 8 * filter_ring.slot, filter_ring.parity);
          std::uint64_t a = wgmma::moved(row, w * p.step_w),
                        b = wgmma::moved(filter, filter_ring.slot * p.slot_vectors());
#pragma unroll 1
          for (int i = 0; i < (down ? 1 : rows); ++i) {
            if constexpr (kSplit) {
              // Sums are added only when others replace them, so the last sums are added here.
              if (waiting) add_to_totals(AddSum{});
              waiting = true;
              wgmma::pin(sums);
              wgmma::fence();
            }
            begin_products(p, a, b, down ? rows : columns, down ? p.step_h : p.step_w, accumulate);
            accumulate = kSplit ? 0 : 1;
            a = wgmma::moved(a, p.step_h);
            b = wgmma::moved(b, columns * p.product_vectors());
            if constexpr (kSplit) {
              wgmma::commit();
              wgmma::wait<0>();
              wgmma::pin(sums);
            }
          }
          if constexpr (!kSplit) {
            wgmma::commit();
            wgmma::wait<1>();
          }
          release();
          used_slot = shared.filter_empty + 8 * filter_ring.slot;
          used_stage = 0;
          filter_ring.advance(p.filter_slots, turns);
        }
        row = wgmma::moved(row, p.slot_rows * p.step_h);
      }
      used_stage = shared.source_empty + 8 * source_ring.slot;
      source_ring.advance(kPackedStages);
    }
    ptx::mbarrier_arrive(shared.begun);
    wgmma::wait<0>();
    release();
    wgmma::pin(sums);
    if constexpr (kSplit) {
      if (waiting) add_to_totals(AddLastSum{});
    }
  }

  /// Skips another team's tile.
  __device__ __forceinline__ void skip_tile(const PackedPlan& p) {
    source_ring.skip(p.stages(), kPackedStages);
    if (!p.filter_stays) filter_ring.skip(p.stages() * p.stage_slots(), p.filter_slots);
  }

  __device__ __forceinline__ void clear_totals() {
    if constexpr (kSplit) {
#pragma unroll
      for (float& total : totals) total = 0;
    }
  }
};

/// A team's tiles: every kPackedTeams'th of the block's, from the `team`th on.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void multiply_and_store(
    const PackedPlan& p, const Operands<typename ArithmeticTraits<kArithmetic>::Element>& operands,
    const Shared& shared, int team) {
  constexpr int kPitch = packed_pitch(ArithmeticTraits<kArithmetic>::kSplit);
  Multiplier<kArithmetic> multiplier;
  const int thread = static_cast<int>(threadIdx.x) % kPackedTeam, barrier = team + 1;
  const int tiles = static_cast<int>(p.blocks());
  const bool plain = operands.activate.is_none() && operands.linear == nullptr;
  float* const biases = shared.biases + team * kPackedResults;
  float* const out = shared.out + (p.out_buffers - 1) * team * p.out_elements();
  for (int i = 0; i < team; ++i) multiplier.skip_tile(p);
  // The phase of the tile before: a team's tiles are the odd or the even ones of the block's.
  const std::uint32_t parity = static_cast<std::uint32_t>(team + 1) & 1;
  static_assert(kPackedTeams == 2);
#pragma unroll 1
  for (int index = first_tile() + team * tile_step(); index < tiles; index += kPackedTeams * tile_step()) {
    const PackedTile tile = packed_tile(p, index);
    if (p.groups > 1 || index < kPackedTeams * tile_step()) fill_biases(p, tile, operands, biases, thread);
    multiplier.clear_totals();
    // A barrier distinguishes only two phases, so each team waits for a phase only after the other has seen the
    // previous one.
    ptx::mbarrier_wait(shared.begun, parity);
    multiplier.multiply_tile(p, shared);
    if (p.out_buffers == 1) ptx::mbarrier_wait(shared.stored, parity);
    ptx::barrier<kPackedTeam>(barrier);
    if (p.paired) {
      stage_pairs<kPitch>(p, multiplier.results(), biases, out);
    } else {
      stage_results<kPitch>(p, multiplier.results(), biases, out);
    }
    ptx::barrier<kPackedTeam>(barrier);
    if (plain && stores_pairs(p, operands)) {
      store_paired_results<kPitch>(p, tile, operands, out, thread);
    } else if (plain) {
      store_results<true, kPitch>(p, tile, operands, out, thread);
    } else {
      store_results<false, kPitch>(p, tile, operands, out, thread);
    }
    if (p.out_buffers == 1) ptx::mbarrier_arrive(shared.stored);
    multiplier.skip_tile(p);
  }
}

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(kPackedThreads, 1)
    packed_kernel(const __grid_constant__ PackedPlan p,
                  const __grid_constant__ Operands<typename ArithmeticTraits<kArithmetic>::Element> operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  const Shared shared = shared_of(p);
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();

  constexpr int kMultipliers = kPackedTeams * kPackedTeam, kLoaders = kPackedThreads - kMultipliers;
  constexpr int kLoaderRegisters = 96;
  constexpr int kRegisters = multiplier_registers(kPackedThreads, kLoaders, kLoaderRegisters);
  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup >= kMultipliers / 128) {
    ptx::lower_register_limit<kLoaderRegisters>();
    const int thread = static_cast<int>(threadIdx.x) - kMultipliers;
    if (thread < kPackers) {
      pack_sources<ArithmeticTraits<kArithmetic>::kSplit>(p, operands, shared, thread);
    } else if (thread == kPackers) {
      copy_operands(p, operands, shared);
    }
  } else {
    ptx::raise_register_limit<kRegisters>();
    static_assert(kPackedTeam == 128);
    multiply_and_store<kArithmetic>(p, operands, shared, warpgroup);
  }
#endif
}

}  // namespace adjoint::cuda::packed

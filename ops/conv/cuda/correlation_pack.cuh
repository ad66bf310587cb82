// Packs the filter into the blocks that the tensor-core kernel of conv and conv_transpose streams.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>
#include <cstring>

namespace adjoint::cuda::correlation {

/// What a unit of K holds for one column: its first channel, and where channel 0's tap lies in the filter; -1 for
/// zeros.
struct PackedUnit {
  std::int64_t first;
  int unit;
};

/// Four units of K that a thread packs, one of every four rows of a block; locate(i) gives the i-th.
template <Arithmetic kArithmetic, class Locate>
__device__ __forceinline__ void pack_units(const CorrelationPlan& plan, const void* filter_pointer,
                                           const Locate& locate, std::int64_t k_stride, int columns,
                                           std::uint32_t* to) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kUnits = kChunkUnits / 4, kChannels = Traits::kHalf ? 2 : 1;
  const auto* filter = static_cast<const T*>(filter_pointer);
  // All reads before the first write, which for all that the compiler knows might change what they read.
  T values[kUnits][kChannels];
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const auto [first, unit] = locate(i);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const int channel = unit * kChannels + c;
      values[i][c] = first >= 0 && channel < plan.k_channels ? filter[first + channel * k_stride] : from_float<T>(0.0F);
    }
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i, to += 4 * columns) {
    if constexpr (Traits::kHalf) {
      memcpy(to, values[i], sizeof(*to));
    } else if constexpr (Traits::kSplit) {
      split_tf32(values[i][0], to[0], to[kChunkUnits * columns]);
    } else {
      *to = ptx::round_to_tf32(values[i][0]);
    }
  }
}

inline constexpr int kPackThreads = 256;

/// Which of the packing's blocks of threads one is: a chunk and column tile, and which part of the tile's columns.
struct PackBlock {
  int chunk, column_tile, part, parts;
};

/// Filter blocks in the order of every tile's walk: [unit / 4][column][unit % 4] units, tails after heads where split.
/// A block of threads packs a chunk of all steps of some columns of a column tile: neighbouring taps, which lie in the
/// same sectors.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void pack_filter(const CorrelationPlan& plan, const void* filter, std::uint32_t* blocks,
                                            const PackBlock& block) {
  const int chunk = block.chunk;
  const CorrelationWork work = correlation_work(plan, static_cast<std::int64_t>(block.column_tile) * plan.cluster);
  const CorrelationClass& c = plan.class_list[work.class_index];
  const std::int64_t taps = static_cast<std::int64_t>(plan.kernel_h) * plan.kernel_w;
  const std::int64_t k_stride = plan.transposed ? plan.n_channels * taps : taps;
  const std::int64_t n_stride = plan.transposed ? taps : plan.k_channels * taps;
  const int slots = 4 * plan.tile_columns, threads = static_cast<int>(blockDim.x),
            thread = static_cast<int>(threadIdx.x);
  // Both are powers of two; a division takes longer than the reads.
  const int log2_at_once = 31 - __clz(slots < threads ? slots : threads), at_once = 1 << log2_at_once;
  const int first_slot = block.part * at_once + (thread & (at_once - 1)), row = thread >> log2_at_once,
            rows = threads >> log2_at_once;
  for (int slot = first_slot; slot < slots; slot += block.parts * at_once) {
    const CorrelationColumn column = correlation_column(plan, work, slot / 4);
    const std::int64_t pair =
        work.group * std::int64_t{plan.k_channels} * plan.n_channels * taps + column.channel * n_stride;
    for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      const CorrelationPass& pass = plan.passes[i];
      for (int s = pass.first_step + row; s < pass.end_step; s += rows) {
        const CorrelationColumns range = correlation_columns(plan, plan.steps[s]);
        const int within = slot / 4 - range.first;
        if (within < 0 || within >= range.count) continue;
        const std::int64_t half = work.first_half + correlation_block_half(plan, pass, chunk, s);
        std::uint32_t* to = blocks + half * (plan.w_block_units / 2) + 4 * within + slot % 4;
        if (plan.gathers) {
          const auto locate = [&](int quad) {
            const CorrelationUnit unit = correlation_unit(plan, pass, s, 4 * quad + slot % 4);
            const int tap = unit.tap < 0 ? -1 : correlation_filter_tap(plan, plan.taps[unit.tap], column);
            return PackedUnit{tap < 0 ? -1 : pair + tap, unit.channel};
          };
          pack_units<kArithmetic>(plan, filter, locate, k_stride, range.count, to);
        } else {
          const int tap = correlation_filter_tap(plan, plan.steps[s].tap, column);
          const auto locate = [&](int quad) {
            return PackedUnit{tap < 0 ? -1 : pair + tap, chunk * kChunkUnits + slot % 4 + 4 * quad};
          };
          pack_units<kArithmetic>(plan, filter, locate, k_stride, range.count, to);
        }
      }
    }
  }
}

template <Arithmetic kArithmetic>
__global__ void pack_filter_kernel(const __grid_constant__ CorrelationPlan plan, const void* filter,
                                   std::uint32_t* blocks) {
  pack_filter<kArithmetic>(plan, filter, blocks,
                           {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z),
                            static_cast<int>(gridDim.z)});
}

}  // namespace adjoint::cuda::correlation

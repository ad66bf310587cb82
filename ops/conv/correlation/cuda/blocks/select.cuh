// Maps a plan's tile to a compiled kernel that reads a copy in channel blocks.
#pragma once

#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/kernel.cuh>
#include <adjoint/ops/conv/correlation/cuda/blocks/pack.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/select.cuh>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::blocked {

using Kernel = void (*)(CorrelationPlan, TensorMap, CorrelationOperands);

/// The kernel of the plan's tile, which is the table's kIndex-th or a later one.
template <Arithmetic kArithmetic, std::size_t kIndex = 0>
Kernel select_kernel(const CorrelationPlan& plan) {
  constexpr CorrelationTile kTile = correlation::kTileOf<kArithmetic, kIndex>;
  static_assert(kTile.reads_blocks());
  constexpr std::size_t kNext = kIndex + 1;
  if constexpr (correlation::kTileOf<kArithmetic, kNext>.reads_blocks()) {
    if (plan.tile_columns != kTile.columns || plan.m_tiles != kTile.m_tiles) {
      return select_kernel<kArithmetic, kNext>(plan);
    }
  }
  constexpr bool kHalves = kTile.columns >= 128;  // the plan's steps may multiply half of the columns
  const auto kernel_of = [&]<bool kPartial>(std::bool_constant<kPartial>) -> Kernel {
    if (kHalves && plan.halves())
      return blocked_kernel<kArithmetic, kTile.columns, kHalves, kTile.m_tiles, kTile.consumers, kPartial>;
    return blocked_kernel<kArithmetic, kTile.columns, false, kTile.m_tiles, kTile.consumers, kPartial>;
  };
  if constexpr (ArithmeticTraits<kArithmetic>::kHalf) {
    if (plan.slices > 1) return kernel_of(std::true_type{});
  }
  return kernel_of(std::false_type{});
}

/// The grid of pack_operands_kernel.
inline PackGrid pack_grid(const CorrelationPlan& plan) {
  const dim3 filter = correlation::pack_grid(plan);
  const auto divider = [](std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  static_assert(correlation::kPackThreads == channel_blocks::kCopyThreads);
  PackGrid grid{};
  grid.input = channel_blocks::copy_grid(plan.copy());
  const std::int64_t of_filter = static_cast<std::int64_t>(filter.x) * filter.y * filter.z;
  const std::int64_t of_input = grid.input.blocks;
  grid.blocks = of_filter + of_input;
  // With many filter blocks, long ones come first, so that the last to end are short.
  constexpr int kInputBytes = correlation::kPackThreads * channel_blocks::kChunksOfThread * 4 * kChunkUnits;
  const bool filter_first = 2 * correlation_pack_bytes(plan) > kInputBytes;
  grid.spreads_filter = of_filter <= of_input || filter_first;
  grid.spread = static_cast<int>(grid.spreads_filter ? of_filter : of_input);
  grid.period = divider(of_filter <= of_input ? 2 : filter_first ? 1 : grid.blocks / of_input);
  grid.filter_parts = divider(filter.z);
  grid.filter_chunks = divider(filter.x);
  return grid;
}

/// The same if the filter is packed already: only the input's blocks.
inline PackGrid copy_grid(const CorrelationPlan& plan) {
  PackGrid grid = pack_grid(plan);
  grid.blocks = grid.input.blocks;
  grid.spreads_filter = true;
  grid.spread = 0;
  return grid;
}

}  // namespace adjoint::cuda::blocked

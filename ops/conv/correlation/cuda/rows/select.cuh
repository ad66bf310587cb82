// Maps a plan's tile to a compiled kernel.
#pragma once

#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/correlation/cuda/filter/pack.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/kernel.cuh>

#include <cstddef>
#include <iterator>

namespace adjoint::cuda::correlation {

using Kernel = void (*)(CorrelationPlan, CorrelationOperands);

template <Arithmetic kArithmetic, std::size_t kIndex>
inline constexpr CorrelationTile kTileOf =
    ArithmeticTraits<kArithmetic>::kSplit ? kSplitCorrelationTiles[kIndex % std::size(kSplitCorrelationTiles)]
                                          : kCorrelationTiles[kIndex];

template <Arithmetic kArithmetic, std::size_t kIndex, bool kHalves, bool kGathers>
Kernel select_rows(const CorrelationPlan& plan) {
  constexpr CorrelationTile kTile = kTileOf<kArithmetic, kIndex>;
  if (plan.one_row()) {
    return correlation_kernel<kArithmetic, kTile.columns, kHalves, true, kGathers, kTile.m_tiles, kTile.consumers,
                              kTile.blocks_per_sm>;
  }
  return correlation_kernel<kArithmetic, kTile.columns, kHalves, false, kGathers, kTile.m_tiles, kTile.consumers,
                            kTile.blocks_per_sm>;
}

/// The kernel of the plan's tile, which is the table's kIndex-th or a later one.
template <Arithmetic kArithmetic, std::size_t kIndex = 0>
Kernel select_kernel(const CorrelationPlan& plan) {
  constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
  constexpr std::size_t kTiles = kSplit ? std::size(kSplitCorrelationTiles) : std::size(kCorrelationTiles);
  constexpr CorrelationTile kTile = kTileOf<kArithmetic, kIndex>;
  if constexpr (kTile.blocked) {
    return select_kernel<kArithmetic, kIndex + 1>(plan);
  } else {
    if constexpr (kIndex + 1 < kTiles) {
      if (plan.tile_columns != kTile.columns || plan.m_tiles != kTile.m_tiles) {
        return select_kernel<kArithmetic, kIndex + 1>(plan);
      }
    }
    if constexpr (kTile.gathers()) {
      if (plan.gathers) return select_rows<kArithmetic, kIndex, false, true>(plan);
    }
    if constexpr (kTile.halves) {
      if (plan.halves()) return select_rows<kArithmetic, kIndex, true, false>(plan);
    }
    return select_rows<kArithmetic, kIndex, false, false>(plan);
  }
}

/// The grid of pack_filter_kernel: chunks, groups, and parts of their channels.
inline dim3 pack_grid(const CorrelationPlan& plan) {
  return dim3(static_cast<unsigned>(plan.chunks), static_cast<unsigned>(plan.groups),
              static_cast<unsigned>(ceil_div(correlation_padded_channels(plan), plan.packing.channels)));
}

}  // namespace adjoint::cuda::correlation

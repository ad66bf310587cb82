// Selects the compiled kernel for a plan's tile, in a family of conv_weight's wgmma kernels.
#pragma once

#include <adjoint/ops/conv/weight/plan.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

namespace adjoint::cuda::weight {

/// Null for a tile that is not compiled. Family: its `Kernel`, and `get<kArithmetic, kMTiles, kColumns>()`.
template <class Family, Arithmetic kArithmetic, int kMTiles, int kColumns>
typename Family::Kernel compiled_tile() {
  if constexpr (!ArithmeticTraits<kArithmetic>::kSplit || wgmma_weight_splits({128 * kMTiles, kColumns})) {
    return Family::template get<kArithmetic, kMTiles, kColumns>();
  } else {
    return nullptr;
  }
}

template <class Family, Arithmetic kArithmetic>
typename Family::Kernel select_tile(const WeightPlan& plan) {
  const int m_tiles = plan.tile_rows / 128;
  switch (plan.tile_columns) {
    case 128:
      return m_tiles == 1 ? compiled_tile<Family, kArithmetic, 1, 128>() : compiled_tile<Family, kArithmetic, 2, 128>();
    case 64:
      return m_tiles == 1   ? compiled_tile<Family, kArithmetic, 1, 64>()
             : m_tiles == 2 ? compiled_tile<Family, kArithmetic, 2, 64>()
                            : compiled_tile<Family, kArithmetic, 3, 64>();
    case 32:
      return m_tiles == 3 ? compiled_tile<Family, kArithmetic, 3, 32>() : compiled_tile<Family, kArithmetic, 6, 32>();
    default: return compiled_tile<Family, kArithmetic, 3, 16>();
  }
}

}  // namespace adjoint::cuda::weight

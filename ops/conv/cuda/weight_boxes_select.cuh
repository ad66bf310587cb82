// From a plan's tile to a compiled kernel whose stages the copy engine brings.
#pragma once

#include <adjoint/ops/conv/cuda/weight_boxes_kernel.cuh>

namespace adjoint::cuda::weight {

using BoxesKernel = void (*)(WeightPlan, BoxOperands);

/// Null for a tile that is not compiled.
template <Arithmetic kArithmetic, int kMTiles, int kColumns>
BoxesKernel compiled_boxes_kernel() {
  if constexpr (!ArithmeticTraits<kArithmetic>::kSplit || wgmma_weight_splits({128 * kMTiles, kColumns})) {
    return boxes_weight_kernel<kArithmetic, kMTiles, kColumns>;
  } else {
    return nullptr;
  }
}

template <Arithmetic kArithmetic>
BoxesKernel select_boxes_kernel(const WeightPlan& plan) {
  const int m_tiles = plan.tile_rows / 128;
  switch (plan.tile_columns) {
    case 128:
      return m_tiles == 1 ? compiled_boxes_kernel<kArithmetic, 1, 128>() : compiled_boxes_kernel<kArithmetic, 2, 128>();
    case 64:
      return m_tiles == 1   ? compiled_boxes_kernel<kArithmetic, 1, 64>()
             : m_tiles == 2 ? compiled_boxes_kernel<kArithmetic, 2, 64>()
                            : compiled_boxes_kernel<kArithmetic, 3, 64>();
    case 32:
      return m_tiles == 3 ? compiled_boxes_kernel<kArithmetic, 3, 32>() : compiled_boxes_kernel<kArithmetic, 6, 32>();
    default:
      return m_tiles == 3 ? compiled_boxes_kernel<kArithmetic, 3, 16>() : compiled_boxes_kernel<kArithmetic, 6, 16>();
  }
}

}  // namespace adjoint::cuda::weight

// From a plan's tile to a compiled wgmma kernel.
#pragma once

#include <adjoint/ops/conv/cuda/weight_wgmma_kernel.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

using WgmmaKernel = void (*)(WeightPlan, WeightOperands);

/// Null for a tile that is not compiled.
template <Arithmetic kArithmetic, int kMTiles, int kColumns>
WgmmaKernel compiled_wgmma_kernel() {
  if constexpr (!ArithmeticTraits<kArithmetic>::kSplit || wgmma_weight_splits({128 * kMTiles, kColumns})) {
    return wgmma_weight_kernel<kArithmetic, kMTiles, kColumns>;
  } else {
    return nullptr;
  }
}

template <Arithmetic kArithmetic>
WgmmaKernel select_wgmma_kernel(const WeightPlan& plan) {
  const int m_tiles = plan.tile_rows / 128;
  switch (plan.tile_columns) {
    case 128:
      return m_tiles == 1 ? compiled_wgmma_kernel<kArithmetic, 1, 128>() : compiled_wgmma_kernel<kArithmetic, 2, 128>();
    case 64:
      return m_tiles == 1   ? compiled_wgmma_kernel<kArithmetic, 1, 64>()
             : m_tiles == 2 ? compiled_wgmma_kernel<kArithmetic, 2, 64>()
                            : compiled_wgmma_kernel<kArithmetic, 3, 64>();
    case 32:
      return m_tiles == 3 ? compiled_wgmma_kernel<kArithmetic, 3, 32>() : compiled_wgmma_kernel<kArithmetic, 6, 32>();
    default:
      return m_tiles == 3 ? compiled_wgmma_kernel<kArithmetic, 3, 16>() : compiled_wgmma_kernel<kArithmetic, 6, 16>();
  }
}

inline WeightOperands wgmma_operands_of(const WeightPlan& plan, const void* image, const void* feature, float* partial,
                                        std::int64_t size) {
  const auto vector = [&](const void* pointer, std::int64_t row) {
    std::int64_t elements = 16 / size;
    while (elements > 1 && !rows_aligned(pointer, row * size, elements * size)) elements /= 2;
    return static_cast<std::int32_t>(elements);
  };
  return {image, feature, partial, wgmma_image_vector(plan, vector(image, plan.image_w)),
          vector(feature, plan.feature_w)};
}

}  // namespace adjoint::cuda::weight

// From a plan's tile to a compiled wgmma kernel.
#pragma once

#include <adjoint/ops/conv/cuda/weight_wgmma_kernel.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

using WgmmaKernel = void (*)(WeightPlan, WeightOperands);

template <Arithmetic kArithmetic, int kColumns>
WgmmaKernel select_wgmma_rows(const WeightPlan& plan) {
  constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
  const auto of = [&](int rows) { return plan.tile_rows == rows; };
  WgmmaKernel kernel = nullptr;
  if constexpr (kColumns >= 64) {
    kernel = wgmma_weight_kernel<kArithmetic, 1, kColumns>;
    if constexpr (!kSplit || kColumns == 64) {
      if (of(256)) kernel = wgmma_weight_kernel<kArithmetic, 2, kColumns>;
    }
    if constexpr (kColumns == 64) {
      if (of(384)) kernel = wgmma_weight_kernel<kArithmetic, 3, kColumns>;
    }
  } else {
    kernel = of(384) ? wgmma_weight_kernel<kArithmetic, 3, kColumns> : wgmma_weight_kernel<kArithmetic, 6, kColumns>;
  }
  return kernel;
}

template <Arithmetic kArithmetic>
WgmmaKernel select_wgmma_kernel(const WeightPlan& plan) {
  switch (plan.tile_columns) {
    case 128: return select_wgmma_rows<kArithmetic, 128>(plan);
    case 64: return select_wgmma_rows<kArithmetic, 64>(plan);
    case 32: return select_wgmma_rows<kArithmetic, 32>(plan);
    default: return select_wgmma_rows<kArithmetic, 16>(plan);
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

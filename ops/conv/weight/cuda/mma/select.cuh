// Selects the compiled kernel for a plan's tile.
#pragma once

#include <adjoint/ops/conv/weight/cuda/mma/kernel.cuh>

namespace adjoint::cuda::weight {

using Kernel = void (*)(WeightPlan, WeightOperands);

template <Arithmetic kArithmetic>
Kernel select_kernel(const WeightPlan& plan) {
  if constexpr (kArithmetic != Arithmetic::kFloat32) {
    if (plan.tile_columns == 128) return weight_kernel<kArithmetic, 4, 8, 4>;
  }
  switch (plan.tile_columns) {
    case 64: return weight_kernel<kArithmetic, 4, 4, 4>;
    case 32: return weight_kernel<kArithmetic, 2, 4, 8>;
    default: return weight_kernel<kArithmetic, 2, 1, 8>;
  }
}

inline WeightOperands operands_of(const WeightPlan& plan, const void* image, const void* feature, float* partial,
                                  std::int64_t size) {
  // With a stride, neighbours in a row belong to different planes.
  const std::int32_t image_vector = plan.stride_w == 1 ? row_vector(image, plan.image_w, size) : 1;
  return {image, feature, partial, image_vector, row_vector(feature, plan.feature_w, size)};
}

}  // namespace adjoint::cuda::weight

// From a plan's tile to a compiled kernel.
#pragma once

#include <adjoint/ops/conv/cuda/weight_kernel.cuh>

#include <algorithm>
#include <type_traits>

namespace adjoint::cuda::weight {

template <Arithmetic kArithmetic>
using Element = std::conditional_t<kArithmetic == Arithmetic::kBFloat16, __nv_bfloat16,
                                   std::conditional_t<kArithmetic == Arithmetic::kFloat16, __half, float>>;

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

/// Of add_splits_kernel, of 256 threads.
inline unsigned add_splits_blocks(const WeightPlan& plan) {
  const std::int64_t elements =
      std::int64_t{plan.groups} * plan.feature_channels * plan.image_channels * plan.kernel_h * plan.kernel_w;
  return static_cast<unsigned>(std::clamp<std::int64_t>((elements + 255) / 256, 1, 1024));
}

}  // namespace adjoint::cuda::weight

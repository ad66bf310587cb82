// The compiled wgmma kernels, and their arguments.
#pragma once

#include <adjoint/ops/conv/weight/cuda/copied/kernel.cuh>
#include <adjoint/ops/conv/weight/cuda/tiles.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

struct WgmmaFamily {
  using Kernel = void (*)(WeightPlan, WeightOperands);
  template <Arithmetic kArithmetic, int kMTiles, int kColumns>
  static Kernel get() {
    return wgmma_weight_kernel<kArithmetic, kMTiles, kColumns>;
  }
};

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

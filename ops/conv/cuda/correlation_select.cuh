// From a plan's tile to a compiled kernel.
#pragma once

#include <adjoint/ops/conv/cuda/correlation_kernel.cuh>
#include <adjoint/ops/conv/cuda/correlation_pack.cuh>

namespace adjoint::cuda::correlation {

using Kernel = void (*)(CorrelationPlan, CorrelationOperands);

template <Arithmetic kArithmetic>
Kernel select_kernel(const CorrelationPlan& plan) {
  if constexpr (kArithmetic == Arithmetic::kFloat32) {
    switch (plan.tile_columns) {
      case 128: return correlation_kernel<kArithmetic, 128, false, 1, 2, 1>;
      case 64: return correlation_kernel<kArithmetic, 64, false, 2, 1, 2>;
      case 32: return correlation_kernel<kArithmetic, 32, false, 2, 1, 2>;
      default: return correlation_kernel<kArithmetic, 16, false, 2, 1, 2>;
    }
  } else {
    if (plan.halves()) return correlation_kernel<kArithmetic, 128, true, 2, 2, 1>;
    switch (plan.tile_columns) {
      case 128: return correlation_kernel<kArithmetic, 128, false, 2, 2, 1>;
      case 64: return correlation_kernel<kArithmetic, 64, false, 4, 1, 2>;
      case 32: return correlation_kernel<kArithmetic, 32, false, 4, 1, 2>;
      default: return correlation_kernel<kArithmetic, 16, false, 4, 1, 2>;
    }
  }
}

/// Of pack_filter_kernel.
inline dim3 pack_grid(const CorrelationPlan& plan) {
  return dim3(static_cast<unsigned>(plan.chunks), static_cast<unsigned>(plan.groups * plan.column_tiles));
}

}  // namespace adjoint::cuda::correlation

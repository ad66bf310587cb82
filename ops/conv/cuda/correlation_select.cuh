// From a plan's tile to a compiled kernel.
#pragma once

#include <adjoint/ops/conv/cuda/correlation_kernel.cuh>
#include <adjoint/ops/conv/cuda/correlation_pack.cuh>

#include <algorithm>

namespace adjoint::cuda::correlation {

using Kernel = void (*)(CorrelationPlan, CorrelationOperands);

template <Arithmetic kArithmetic>
Kernel select_kernel(const CorrelationPlan& plan) {
  if constexpr (kArithmetic == Arithmetic::kFloat32) {
    switch (plan.tile_columns) {
      case 128: return correlation_kernel<kArithmetic, 128, 1, 2, 1>;
      case 64: return correlation_kernel<kArithmetic, 64, 2, 1, 2>;
      case 32: return correlation_kernel<kArithmetic, 32, 2, 1, 2>;
      default: return correlation_kernel<kArithmetic, 16, 2, 1, 2>;
    }
  } else {
    switch (plan.tile_columns) {
      case 128: return correlation_kernel<kArithmetic, 128, 2, 2, 1>;
      case 64: return correlation_kernel<kArithmetic, 64, 4, 1, 2>;
      case 32: return correlation_kernel<kArithmetic, 32, 4, 1, 2>;
      default: return correlation_kernel<kArithmetic, 16, 4, 1, 2>;
    }
  }
}

/// Of pack_filter_kernel, in blocks of 256 threads: all filter blocks of a column tile and group a row.
inline dim3 pack_grid(const CorrelationPlan& plan) {
  const std::int64_t units = plan.blocks_per_group / plan.tiles_per_class * kChunkUnits * plan.tile_columns;
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>((units + 255) / 256, 1, 64)),
              static_cast<unsigned>(plan.groups * plan.column_tiles));
}

}  // namespace adjoint::cuda::correlation

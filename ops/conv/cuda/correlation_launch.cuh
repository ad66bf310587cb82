// Launches of the tensor-core kernel: from a plan's tile to a compiled kernel. Each arithmetic is one .cu file.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/cuda/correlation_kernel.cuh>

#include <algorithm>

namespace adjoint::cuda {
namespace correlation {

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

}  // namespace correlation

template <Arithmetic kArithmetic>
void run_correlation(const CorrelationPlan& plan, CorrelationOperands operands, const void* filter, int device) {
  const std::int64_t blocks = plan.blocks_per_group * plan.groups;
  const Workspace packed(static_cast<std::size_t>(blocks * plan.w_block_units * 4), device);
  if (blocks > 0) {
    const std::int64_t units = plan.blocks_per_group / plan.tiles_per_class * kChunkUnits * plan.tile_columns;
    const dim3 grid(static_cast<unsigned>(std::min<std::int64_t>((units + 255) / 256, 64)),
                    static_cast<unsigned>(plan.groups * plan.column_tiles));
    launch(correlation::pack_filter_kernel<kArithmetic>, {grid, dim3(256)}, device, plan, filter,
           static_cast<std::uint32_t*>(packed.data()));
  }
  operands.filter_blocks = packed.data();
  const correlation::Kernel kernel = correlation::select_kernel<kArithmetic>(plan);
  const auto smem_bytes = static_cast<std::size_t>(correlation_smem_bytes(plan));
  const std::int64_t resident = std::int64_t{multiprocessor_count(device)} * plan.blocks_per_sm;
  const DeviceGuard guard(device);
  allow_smem(kernel, smem_bytes);
  launch(kernel, {dim3(static_cast<unsigned>(std::min(resident, plan.tiles()))), dim3(128 * (plan.consumers + 1)), smem_bytes},
         device, plan, operands);
}

}  // namespace adjoint::cuda

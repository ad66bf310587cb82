// Launches of the tensor-core kernel: from a plan's tile to a compiled kernel. Each arithmetic is one .cu file.
#pragma once

#include <adjoint/ops/conv/cuda/correlation_kernel.cuh>

#include <cuda_runtime.h>

#include <algorithm>

namespace adjoint::cuda::correlation {

using Kernel = void (*)(CorrelationPlan, CorrelationOperands);
using PackKernel = void (*)(CorrelationPlan, const void*, std::uint32_t*);

/// Null for a tile that is not compiled.
template <Arithmetic kArithmetic>
Kernel select_kernel(const CorrelationPlan& plan) {
  if constexpr (kArithmetic == Arithmetic::kFloat32) {
    switch (plan.tile_columns) {
      case 128: return correlation_kernel<kArithmetic, 128, 1, 2, 1>;
      case 64: return correlation_kernel<kArithmetic, 64, 2, 1, 2>;
      case 32: return correlation_kernel<kArithmetic, 32, 2, 1, 2>;
      case 16: return correlation_kernel<kArithmetic, 16, 2, 1, 2>;
    }
  } else {
    switch (plan.tile_columns) {
      case 128: return correlation_kernel<kArithmetic, 128, 2, 2, 1>;
      case 64: return correlation_kernel<kArithmetic, 64, 4, 1, 2>;
      case 32: return correlation_kernel<kArithmetic, 32, 4, 1, 2>;
      case 16: return correlation_kernel<kArithmetic, 16, 4, 1, 2>;
    }
  }
  return nullptr;
}

/// Packs the filter into `blocks` (of correlation_workspace_bytes), then computes. `grid` blocks; any number is right.
template <Arithmetic kArithmetic>
cudaError_t enqueue(const CorrelationPlan& plan, CorrelationOperands operands, const void* filter, void* blocks, int grid,
                    cudaStream_t stream) {
  const std::int64_t units = static_cast<std::int64_t>(plan.blocks_per_group) / plan.tiles_per_class * kChunkUnits * plan.tile_columns;
  if (units > 0) {
    const dim3 pack_grid(static_cast<unsigned>(std::min<std::int64_t>((units + 255) / 256, 64)),
                         static_cast<unsigned>(plan.groups * plan.column_tiles));
    pack_filter_kernel<kArithmetic><<<pack_grid, 256, 0, stream>>>(plan, filter, static_cast<std::uint32_t*>(blocks));
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  }
  operands.filter_blocks = blocks;
  const Kernel kernel = select_kernel<kArithmetic>(plan);
  const auto smem_bytes = static_cast<int>(correlation_smem_bytes(plan));
  const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  if (allowed != cudaSuccess) return allowed;
  kernel<<<grid, 128 * (plan.consumers + 1), smem_bytes, stream>>>(plan, operands);
  return cudaGetLastError();
}

}  // namespace adjoint::cuda::correlation

// Maps a plan's tile to a compiled mma.sync kernel.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/mma/mma.h>
#include <adjoint/ops/conv/correlation/cuda/mma/kernel.cuh>

namespace adjoint::cuda::correlation_mma {

using Kernel = void (*)(CorrelationPlan, CorrelationOperands, LoadOptions);

template <Arithmetic kArithmetic>
Kernel select_kernel(const CorrelationPlan& plan) {
  if constexpr (kArithmetic == Arithmetic::kFloat32) {
    switch (plan.tile_columns) {
      case 128: return correlation_mma_kernel<kArithmetic, 128, 1, 8, 1>;
      case 64: return correlation_mma_kernel<kArithmetic, 64, 2, 4, 2>;
      case 32: return correlation_mma_kernel<kArithmetic, 32, 2, 4, 2>;
      default: return correlation_mma_kernel<kArithmetic, 16, 2, 4, 2>;
    }
  } else {
    switch (plan.tile_columns) {
      case 128: return correlation_mma_kernel<kArithmetic, 128, 2, 8, 1>;
      case 64: return correlation_mma_kernel<kArithmetic, 64, 4, 4, 2>;
      case 32: return correlation_mma_kernel<kArithmetic, 32, 2, 8, 2>;
      default: return correlation_mma_kernel<kArithmetic, 16, 2, 8, 2>;
    }
  }
}

template <class T>
CorrelationOperands operands_of(const CorrelationPlan& plan, const void* filter_blocks, const ConvProblem& problem) {
  return {problem.first,
          filter_blocks,
          problem.bias,
          problem.out,
          0,  // set by LoadOptions
          correlation_store_vector(plan, problem, sizeof(T)),
          Activate<float>(problem.activation),
          problem.linear};
}

template <class T>
LoadOptions load_options(const CorrelationPlan& plan, const void* x) {
  return {mma_load_vector(plan, x, sizeof(T)), correlation_steps_ahead(plan)};
}

}  // namespace adjoint::cuda::correlation_mma

// Launches the kernel for few output channels. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/ops/conv/line/col2im/cuda/col2im.h>
#include <adjoint/ops/conv/line/col2im/cuda/kernel.cuh>
#include <adjoint/ops/conv/line/cuda/launch.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace adjoint::cuda {
namespace col2im {

using Kernel = void (*)(Col2imPlan, Operands);

/// The kernel for the plan's columns, searched from the table's kIndex-th on, and for its depths.
template <Arithmetic kArithmetic, std::size_t kIndex = 0>
Kernel select_kernel(const Col2imPlan& plan) {
  constexpr int kColumns = kCol2imColumns[kIndex];
  if constexpr (kIndex + 1 < std::size(kCol2imColumns)) {
    if (plan.columns != kColumns) return select_kernel<kArithmetic, kIndex + 1>(plan);
  }
  static_assert(std::size(kCol2imDepths) == 2);
  if (plan.depths == kCol2imDepths[0]) return col2im_kernel<kArithmetic, kColumns, kCol2imDepths[0]>;
  return col2im_kernel<kArithmetic, kColumns, kCol2imDepths[1]>;
}

}  // namespace col2im

template <Arithmetic kArithmetic>
void run_col2im(const Col2imPlan& plan, const ConvProblem& problem) {
  const line::Operands<float> operands = line_operands<float>(plan, problem);
  const TensorMapLayout layout = col2im_source_layout(plan, problem.first);
  const std::int64_t resident = std::int64_t{multiprocessor_count(problem.device)} * plan.blocks_per_sm;
  launch_line(col2im::select_kernel<kArithmetic>(plan), plan, std::min(plan.blocks(), resident), kCol2imThreads,
              problem.device, col2im::Operands{operands, operands.vectors ? encode_tensor_map(layout) : TensorMap{}});
}

}  // namespace adjoint::cuda

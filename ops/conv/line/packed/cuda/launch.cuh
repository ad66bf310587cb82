// Launches the kernel for few results a position and several taps. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/line/packed/cuda/packed.h>
#include <adjoint/ops/conv/line/cuda/launch.cuh>
#include <adjoint/ops/conv/line/packed/cuda/kernel.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void run_packed(const PackedPlan& plan, const ConvProblem& problem) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  FilterSpace space(problem, "packed", 0, static_cast<std::size_t>(plan.workspace_bytes()));
  auto* const vectors = static_cast<uint4*>(space.data());
  if (!space.is_filled()) {
    launch(packed::pack_filter_kernel<ArithmeticTraits<kArithmetic>::kSplit, T>,
           {dim3(static_cast<unsigned>(plan.filter_products())), dim3(2 * kPackedResults)}, problem.device,
           static_cast<const PackedPlan&>(plan), static_cast<const T*>(problem.second), vectors);
    space.fill();
  }
  const line::Operands<T> operands = line_operands<T>(plan, problem);
  const TensorMapLayout layout = packed_source_layout(plan, problem.first, problem.dtype);
  const std::int64_t blocks = std::min<std::int64_t>(plan.blocks(), multiprocessor_count(problem.device));
  launch_line(packed::packed_kernel<kArithmetic>, plan, blocks, kPackedThreads, problem.device,
              packed::Operands<T>{operands, vectors, operands.vectors ? encode_tensor_map(layout) : TensorMap{}});
}

}  // namespace adjoint::cuda

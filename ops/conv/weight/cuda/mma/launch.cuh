// Launches the tensor-core kernel of conv_weight. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>
#include <adjoint/ops/conv/weight/cuda/mma/select.cuh>
#include <adjoint/ops/conv/weight/cuda/splits_launch.cuh>

#include <algorithm>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void run_weight(const WeightPlan& plan, const ConvProblem& problem) {
  using T = weight::Element<kArithmetic>;
  const Workspace partial(static_cast<std::size_t>(weight_workspace_bytes(plan)), problem.device);
  const WeightOperands operands =
      weight::operands_of(plan, problem.first, problem.second, static_cast<float*>(partial.data()),
                          static_cast<std::int64_t>(sizeof(T)));
  const weight::Kernel kernel = weight::select_kernel<kArithmetic>(plan);
  const auto smem_bytes = static_cast<std::size_t>(weight_smem_bytes(plan));
  const DeviceGuard guard(problem.device);
  allow_smem(kernel, smem_bytes);
  launch(kernel,
         {dim3(static_cast<unsigned>(plan.blocks_per_split() * plan.splits)), dim3(weight::kThreads), smem_bytes},
         problem.device, plan, operands);
  weight::add_splits(plan, static_cast<const float*>(partial.data()), static_cast<T*>(problem.out), problem.device,
                     false);
}

}  // namespace adjoint::cuda

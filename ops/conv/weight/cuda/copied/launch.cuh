// Launches the wgmma kernel of conv_weight. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>
#include <adjoint/ops/conv/weight/cuda/copied/select.cuh>
#include <adjoint/ops/conv/weight/cuda/splits_launch.cuh>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void run_wgmma_weight(const WeightPlan& plan, const ConvProblem& problem) {
  using T = weight::Element<kArithmetic>;
  const Workspace partial(static_cast<std::size_t>(weight_workspace_bytes(plan)), problem.device);
  const WeightOperands operands =
      weight::wgmma_operands_of(plan, problem.first, problem.second, static_cast<float*>(partial.data()),
                                static_cast<std::int64_t>(sizeof(T)));
  const auto kernel = weight::select_tile<weight::WgmmaFamily, kArithmetic>(plan);
  const auto smem_bytes =
      static_cast<std::size_t>(wgmma_weight_smem_bytes(plan, ArithmeticTraits<kArithmetic>::kSplit));
  const DeviceGuard guard(problem.device);
  allow_smem(kernel, smem_bytes);
  launch_early(kernel,
               {dim3(static_cast<unsigned>(plan.blocks_per_split() * plan.splits)), dim3(weight::kWgmmaThreads),
                smem_bytes},
               1, problem.device, plan, operands);
  weight::add_splits(plan, static_cast<const float*>(partial.data()), static_cast<T*>(problem.out), problem.device,
                     true);
}

}  // namespace adjoint::cuda

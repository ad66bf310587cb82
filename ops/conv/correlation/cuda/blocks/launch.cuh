// Launches the tensor-core kernel that reads a copy in channel blocks. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/select.cuh>

#include <algorithm>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void run_blocked(const CorrelationPlan& plan, const CorrelationOperands& of_call, const ConvProblem& problem) {
  if (plan.tiles() == 0) return;
  const int device = problem.device;
  FilterSpace packed(problem, "blocks", plan.slices, static_cast<std::size_t>(plan.filter_units() * 4));
  const Workspace copy(static_cast<std::size_t>(plan.copy().bytes()), device);
  CorrelationOperands operands = of_call;
  operands.filter_blocks = packed.data();
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  const blocked::PackGrid grid = packed.is_filled() ? blocked::copy_grid(plan) : blocked::pack_grid(plan);
  launch(blocked::pack_operands_kernel<kArithmetic>,
         {dim3(static_cast<unsigned>(grid.blocks)), dim3(correlation::kPackThreads),
          static_cast<std::size_t>(correlation_pack_bytes(plan))},
         device, plan, grid, problem.second, static_cast<std::uint32_t*>(packed.data()),
         static_cast<const T*>(operands.x), static_cast<uint4*>(copy.data()));
  packed.fill();
  const blocked::Kernel kernel = blocked::select_kernel<kArithmetic>(plan);
  const auto smem_bytes = static_cast<std::size_t>(correlation_smem(plan).end);
  const std::int64_t clusters = std::max(multiprocessor_count(device) / plan.cluster, 1);
  const std::int64_t blocks = std::min<std::int64_t>(clusters * plan.cluster, plan.tiles());
  const DeviceGuard guard(device);
  allow_smem(kernel, smem_bytes);
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(blocks)), dim3(128 * (plan.consumers + 1)), smem_bytes};
  launch_early(kernel, geometry, plan.cluster, device, plan,
               encode_tensor_map(correlation_copy_layout(plan, copy.data())), operands);
}

}  // namespace adjoint::cuda

// Launches the tensor-core kernel of conv and conv_transpose. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/correlation/cuda/rows/select.cuh>

#include <algorithm>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void pack_correlation_filter(const CorrelationPlan& plan, const void* filter, void* blocks, int device) {
  if (plan.filter_units() == 0) return;
  launch(correlation::pack_filter_kernel<kArithmetic>,
         {correlation::pack_grid(plan), dim3(correlation::kPackThreads),
          static_cast<std::size_t>(correlation_pack_bytes(plan))},
         device, plan, filter, static_cast<std::uint32_t*>(blocks));
}

template <Arithmetic kArithmetic>
void run_correlation(const CorrelationPlan& plan, const CorrelationOperands& of_call, const ConvProblem& problem) {
  const int device = problem.device;
  FilterSpace packed(problem, "rows", plan.slices, static_cast<std::size_t>(plan.filter_units() * 4));
  if (!packed.is_filled()) {
    pack_correlation_filter<kArithmetic>(plan, problem.second, packed.data(), device);
    packed.fill();
  }
  CorrelationOperands operands = of_call;
  operands.filter_blocks = packed.data();
  const correlation::Kernel kernel = correlation::select_kernel<kArithmetic>(plan);
  const auto smem_bytes = static_cast<std::size_t>(correlation_smem(plan).end);
  const std::int64_t resident = std::int64_t{multiprocessor_count(device)} * plan.blocks_per_sm;
  const std::int64_t grid = std::min(std::max<std::int64_t>(resident / plan.cluster, 1) * plan.cluster, plan.tiles());
  const DeviceGuard guard(device);
  allow_smem(kernel, smem_bytes);
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(grid)), dim3(128 * (plan.consumers + 1)), smem_bytes};
  launch_early(kernel, geometry, plan.cluster, device, plan, operands);
}

}  // namespace adjoint::cuda

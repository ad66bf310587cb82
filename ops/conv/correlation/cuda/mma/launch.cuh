// Launches the mma.sync kernel of conv and conv_transpose. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/correlation/cuda/mma/select.cuh>

#include <algorithm>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void run_correlation_mma(const CorrelationPlan& plan, const ConvProblem& problem) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  FilterSpace packed(problem, "mma", plan.slices, static_cast<std::size_t>(plan.filter_units() * 4));
  if (!packed.is_filled()) {
    pack_correlation_filter<kArithmetic>(plan, problem.second, packed.data(), problem.device);
    packed.fill();
  }
  const correlation_mma::Kernel kernel = correlation_mma::select_kernel<kArithmetic>(plan);
  const auto smem_bytes = static_cast<std::size_t>(correlation_mma_smem(plan).end);
  const std::int64_t resident = std::int64_t{multiprocessor_count(problem.device)} * plan.blocks_per_sm;
  const DeviceGuard guard(problem.device);
  allow_smem(kernel, smem_bytes);
  launch(kernel,
         {dim3(static_cast<unsigned>(std::min(resident, plan.tiles()))), dim3(128 * plan.consumers), smem_bytes},
         problem.device, plan, correlation_mma::operands_of<T>(plan, packed.data(), problem),
         correlation_mma::load_options<T>(plan, problem.first));
}

}  // namespace adjoint::cuda

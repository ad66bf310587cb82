// Launches the kernels for depthwise layers in channels_last. Each dtype is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/channelwise/cuda/depthwise/kernel.cuh>
#include <adjoint/ops/conv/channelwise/cuda/depthwise/weight.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

template <DType kDType>
void run_depthwise(const DepthwisePlan& plan, const ConvProblem& problem) {
  using T = FloatElement<kDType>;
  constexpr std::int64_t kBlocksOfMultiprocessor = 8;  // then blocks compute further strips
  const depthwise::Operands<T> operands{static_cast<const T*>(problem.first), static_cast<const T*>(problem.second),
                                        static_cast<const T*>(problem.bias), static_cast<T*>(problem.out),
                                        Activate<float>(problem.activation)};
  const std::int64_t lanes = plan.lanes(sizeof(T)), rows = kDepthwiseThreads / lanes,
                     columns = ceil_div(std::int64_t{plan.channels}, lanes * DepthwisePlan::pack(sizeof(T)));
  const std::int64_t most =
      std::max<std::int64_t>(1, kBlocksOfMultiprocessor * multiprocessor_count(problem.device) / columns);
  const dim3 grid(static_cast<unsigned>(std::min(ceil_div(plan.strips, rows), most)), static_cast<unsigned>(columns));
  launch_early(depthwise::select_kernel<T>(plan),
               {grid, dim3(kDepthwiseThreads), static_cast<std::size_t>(plan.smem_bytes(sizeof(T)))}, 1, problem.device,
               plan, operands);
}

template <DType kDType>
void run_depthwise_weight(const DepthwiseWeightPlan& plan, const ConvProblem& problem, float* sums) {
  using T = FloatElement<kDType>;
  const std::int64_t of_block = plan.walk.lanes(sizeof(T)) * DepthwisePlan::pack(sizeof(T));
  const dim3 grid(static_cast<unsigned>(plan.slices),
                  static_cast<unsigned>(ceil_div(std::int64_t{plan.walk.channels}, of_block)),
                  static_cast<unsigned>(ceil_div(plan.jobs, plan.jobs_of_block)));
  const auto kernel = depthwise::select_weight_kernel<T>(plan);
  const auto smem_bytes = static_cast<std::size_t>(plan.smem_bytes(sizeof(T)));
  const DeviceGuard guard(problem.device);
  allow_smem(kernel, smem_bytes);
  launch_early(kernel, {grid, dim3(kDepthwiseThreads), smem_bytes}, 1, problem.device, plan,
               static_cast<const T*>(problem.first), static_cast<const T*>(problem.second), sums);
}

}  // namespace adjoint::cuda

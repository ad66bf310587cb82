// Launches the kernels for few channels a group. Each dtype is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/channelwise/cuda/gather.cuh>
#include <adjoint/ops/conv/channelwise/cuda/weight.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {

template <DType kDType>
void run_channelwise_gather(const ChannelwisePlan& plan, const ConvProblem& problem) {
  using T = FloatElement<kDType>;
  const channelwise::GatherOperands<T> operands{static_cast<const T*>(problem.first),
                                                static_cast<const T*>(problem.second),
                                                static_cast<const T*>(problem.bias), static_cast<T*>(problem.out),
                                                Activate<float>(problem.activation)};
  launch(channelwise::select_gather<T>(plan),
         {dim3(static_cast<unsigned>(plan.tiles())), dim3(static_cast<unsigned>(plan.threads)),
          static_cast<std::size_t>(plan.smem_bytes())},
         problem.device, plan, operands);
}

template <DType kDType>
void run_channelwise_weight(const ChannelwiseWeightPlan& plan, const ConvProblem& problem) {
  using T = FloatElement<kDType>;
  const ChannelwisePlan& walk = plan.walk;
  const std::int64_t count = plan.pairs * walk.taps;
  const Workspace partial(static_cast<std::size_t>(plan.workspace_bytes()), problem.device);
  const channelwise::WeightOperands<T> operands{static_cast<const T*>(problem.first),
                                                static_cast<const T*>(problem.second),
                                                static_cast<float*>(partial.data())};
  const std::int64_t blocks = plan.pairs * plan.splits * plan.tap_row_blocks * plan.tap_column_blocks;
  launch(channelwise::select_weight<T>(walk),
         {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(walk.threads)),
          static_cast<std::size_t>(plan.smem_bytes())},
         problem.device, plan, operands);
  const auto add_blocks = static_cast<unsigned>(std::clamp<std::int64_t>((count + 255) / 256, 1, 1024));
  launch(channelwise::add_pair_splits<T>, {dim3(add_blocks), dim3(256)}, problem.device,
         static_cast<const float*>(partial.data()), static_cast<T*>(problem.out), count, plan.splits);
}

}  // namespace adjoint::cuda

// conv_weight with few channels a group.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/cuda/channelwise.h>
#include <adjoint/ops/conv/cuda/kept_plans.h>
#include <adjoint/ops/conv/cuda/channelwise_weight.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxPairs = 16;  // channels times channels of a group; more is work for tensor cores

const ChannelwiseWeightPlan* find_plan(const ConvProblem& problem) {
  return keep_plan<ChannelwiseWeightPlan>(problem, [&](ChannelwiseWeightPlan& plan) {
    return plan_channelwise_weight(problem.geometry, element_size(problem.dtype), plan);
  });
}

bool takes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.dtype == kFloat64 || g.image_channels_per_group() * g.feature_channels_per_group() > kMaxPairs)
    return false;
  return find_plan(problem) != nullptr;
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  const ChannelwiseWeightPlan& plan = *find_plan(problem);
  return static_cast<std::size_t>(plan.pairs * plan.walk.taps * plan.splits * 4);
}

template <class T>
void run_weight(const ChannelwiseWeightPlan& plan, const ConvProblem& problem) {
  const ChannelwisePlan& walk = plan.walk;
  const std::int64_t count = plan.pairs * walk.taps;
  const Workspace partial(workspace_bytes(problem), problem.device);
  const channelwise::WeightOperands<T> operands{static_cast<const T*>(problem.first),
                                                static_cast<const T*>(problem.second),
                                                static_cast<float*>(partial.data())};
  const std::int64_t blocks = plan.pairs * plan.splits * plan.tap_row_blocks * plan.tap_column_blocks;
  launch(channelwise::select_weight<T>(walk),
         {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(walk.threads)),
          static_cast<std::size_t>(walk.smem_floats()) * 8},
         problem.device, plan, operands);
  const auto add_blocks = static_cast<unsigned>(std::clamp<std::int64_t>((count + 255) / 256, 1, 1024));
  launch(channelwise::add_pair_splits<T>, {dim3(add_blocks), dim3(256)}, problem.device,
         static_cast<const float*>(partial.data()), static_cast<T*>(problem.out), count, plan.splits);
}

void run(const ConvProblem& problem) {
  const ChannelwiseWeightPlan& plan = *find_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_weight<__nv_bfloat16>(plan, problem);
    case kFloat16: return run_weight<__half>(plan, problem);
    default: return run_weight<float>(plan, problem);
  }
}

}  // namespace

const ConvKernel channelwise_conv_weight{"channelwise_conv_weight", takes, run, false, workspace_bytes};

}  // namespace adjoint::cuda

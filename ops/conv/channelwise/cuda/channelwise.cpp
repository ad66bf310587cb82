// Plans and calls the kernels for few channels a group. Each dtype is one translation unit.
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/channelwise/cuda/weight_plan.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

const ChannelwisePlan* find_channelwise_plan(const ConvProblem& problem) {
  return keep_plan<ChannelwisePlan>(problem, [&](ChannelwisePlan& plan) {
    return plan_channelwise(problem.geometry, problem.role == ConvRole::kImage, arithmetic_of(problem), plan);
  });
}

const ChannelwiseWeightPlan* find_channelwise_weight_plan(const ConvProblem& problem) {
  return keep_plan<ChannelwiseWeightPlan>(problem, [&](ChannelwiseWeightPlan& plan) {
    return plan_channelwise_weight(problem.geometry, arithmetic_of(problem), plan);
  });
}

namespace {

// Both kernels are designed for few channels and accept no more, though plans could have more.
bool takes_gather(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t source =
      problem.role == ConvRole::kImage ? g.feature_channels_per_group() : g.image_channels_per_group();
  if (problem.dtype == kFloat64 || source > kChannelwiseMaxSourceChannels) return false;
  return find_channelwise_plan(problem) != nullptr;
}

bool takes_weight(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t pairs = g.image_channels_per_group() * g.feature_channels_per_group();
  if (problem.dtype == kFloat64 || pairs > kChannelwiseFewPairs) return false;
  return find_channelwise_weight_plan(problem) != nullptr;
}

void run_gather(const ConvProblem& problem) {
  if (problem.linear != nullptr) {
    // Computed twice: its operands are small, and a second store would cost every walk registers.
    ConvProblem linear = problem;
    linear.out = problem.linear;
    linear.activation = {};
    linear.linear = nullptr;
    run_gather(linear);
  }
  const ChannelwisePlan& plan = *find_channelwise_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_channelwise_gather<kBFloat16>(plan, problem);
    case kFloat16: return run_channelwise_gather<kFloat16>(plan, problem);
    default: return run_channelwise_gather<kFloat32>(plan, problem);
  }
}

void run_weight(const ConvProblem& problem) {
  const ChannelwiseWeightPlan& plan = *find_channelwise_weight_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_channelwise_weight<kBFloat16>(plan, problem);
    case kFloat16: return run_channelwise_weight<kFloat16>(plan, problem);
    default: return run_channelwise_weight<kFloat32>(plan, problem);
  }
}

std::size_t weight_workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(find_channelwise_weight_plan(problem)->workspace_bytes());
}

}  // namespace

void run_depthwise_of(const DepthwisePlan& plan, const ConvProblem& problem) {
  switch (problem.dtype) {
    case kBFloat16: return run_depthwise<kBFloat16>(plan, problem);
    case kFloat16: return run_depthwise<kFloat16>(plan, problem);
    default: return run_depthwise<kFloat32>(plan, problem);
  }
}

void run_depthwise_weight_of(const DepthwiseWeightPlan& plan, const ConvProblem& problem, float* sums) {
  switch (problem.dtype) {
    case kBFloat16: return run_depthwise_weight<kBFloat16>(plan, problem, sums);
    case kFloat16: return run_depthwise_weight<kFloat16>(plan, problem, sums);
    default: return run_depthwise_weight<kFloat32>(plan, problem, sums);
  }
}

const ConvKernel channelwise_conv{"channelwise_conv", takes_gather, run_gather};
const ConvKernel channelwise_conv_transpose{"channelwise_conv_transpose", takes_gather, run_gather};
const ConvKernel channelwise_conv_weight{"channelwise_conv_weight", takes_weight, run_weight, weight_workspace_bytes};

}  // namespace adjoint::cuda

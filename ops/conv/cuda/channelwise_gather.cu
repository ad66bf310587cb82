// conv and conv_transpose with few channels a group.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/cuda/channelwise.h>
#include <adjoint/ops/conv/cuda/kept_plans.h>
#include <adjoint/ops/conv/cuda/channelwise_gather.cuh>

#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxPairs = 16;  // channels times channels of a group; more is work for tensor cores

const ChannelwisePlan* find_plan(const ConvProblem& problem) {
  return keep_plan<ChannelwisePlan>(problem, [&](ChannelwisePlan& plan) {
    return plan_channelwise(problem.geometry, problem.role == ConvRole::kImage, element_size(problem.dtype), plan);
  });
}

bool takes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.dtype == kFloat64 || g.image_channels_per_group() * g.feature_channels_per_group() > kMaxPairs)
    return false;
  return find_plan(problem) != nullptr;
}

template <class T>
void run_gather(const ChannelwisePlan& plan, const ConvProblem& problem) {
  const channelwise::GatherOperands<T> operands{static_cast<const T*>(problem.first),
                                                static_cast<const T*>(problem.second),
                                                static_cast<const T*>(problem.bias), static_cast<T*>(problem.out),
                                                Activate<float>(problem.activation)};
  launch(channelwise::select_gather<T>(plan),
         {dim3(static_cast<unsigned>(plan.tiles())), dim3(static_cast<unsigned>(plan.threads)),
          static_cast<std::size_t>(plan.smem_floats()) * 4},
         problem.device, plan, operands);
}

void run(const ConvProblem& problem) {
  if (problem.linear != nullptr) {
    // Computed twice: its operands are few, and another store would cost every walk registers.
    ConvProblem linear = problem;
    linear.out = problem.linear;
    linear.activation = {};
    linear.linear = nullptr;
    run(linear);
  }
  const ChannelwisePlan& plan = *find_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_gather<__nv_bfloat16>(plan, problem);
    case kFloat16: return run_gather<__half>(plan, problem);
    default: return run_gather<float>(plan, problem);
  }
}

}  // namespace

const ConvKernel channelwise_conv{"channelwise_conv", takes, run, true};
const ConvKernel channelwise_conv_transpose{"channelwise_conv_transpose", takes, run, true};

}  // namespace adjoint::cuda

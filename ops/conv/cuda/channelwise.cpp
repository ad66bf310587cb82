// Chooses and calls the kernels for few channels a group. Their code is in one .cu file a dtype.
#include <adjoint/ops/conv/cuda/channelwise.h>
#include <adjoint/ops/conv/cuda/kept_plans.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kFewPairs = 16;  // channels times channels of a group

const ChannelwisePlan* gather_plan(const ConvProblem& problem) {
  return keep_plan<ChannelwisePlan>(problem, [&](ChannelwisePlan& plan) {
    return plan_channelwise(problem.geometry, problem.role == ConvRole::kImage, element_size(problem.dtype), plan);
  });
}

const ChannelwiseWeightPlan* weight_plan(const ConvProblem& problem) {
  return keep_plan<ChannelwiseWeightPlan>(problem, [&](ChannelwiseWeightPlan& plan) {
    return plan_channelwise_weight(problem.geometry, element_size(problem.dtype), plan);
  });
}

/// Clocks of a multiprocessor for 32 results, memory left out; issue slots are seven tenths full.
double channelwise_clocks(const ChannelwisePlan& plan) {
  constexpr double kSlots = 4 * 0.7, kSlotsOfResult = 15;
  const double taps = static_cast<double>(plan.taps) / (plan.h.phases * plan.w.phases) * plan.source_channels;
  const bool one_by_one = plan.taps_h == 0 && plan.channel_block == 1;
  return (taps * (one_by_one ? 2.8 : 1.4) + kSlotsOfResult) / kSlots;
}

/// The same of the tensor-core kernel: 64 positions take columns / 2 clocks for eight units, or what reading them
/// takes, and measured times on such shapes are two and a half times that.
double tensor_core_clocks(const ChannelwisePlan& plan, Arithmetic arithmetic) {
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t units = ceil_div(plan.source_channels, 16 * unit_elements(arithmetic)) * 16;
  const std::int64_t phases = std::int64_t{plan.h.phases} * plan.w.phases;
  const std::int64_t steps = plan.h.transposed != 0 ? std::int64_t{plan.h.most_taps} * plan.w.most_taps  // at least
                                                    : std::int64_t{plan.taps};
  const std::int64_t results = plan.channels * phases;
  const double columns = static_cast<double>(ceil_div(results, 16) * 16);
  const double clocks = std::max(columns / 2, 16 + columns / 4) * static_cast<double>(steps * units / 8);
  return 2.5 * clocks * (arithmetic == Arithmetic::kFloat32 ? 2.5 : 1) / 2 / static_cast<double>(results);
}

bool takes_gather(const ConvProblem& problem) {
  constexpr std::int64_t kMaxSourceChannels = 16;
  const ConvGeometry& g = problem.geometry;
  const std::int64_t image = g.image_channels_per_group(), feature = g.feature_channels_per_group();
  const std::int64_t source = problem.role == ConvRole::kImage ? feature : image;
  if (problem.dtype == kFloat64 || source > kMaxSourceChannels) return false;
  const ChannelwisePlan* plan = gather_plan(problem);
  return plan != nullptr && (image * feature <= kFewPairs ||
                             channelwise_clocks(*plan) <= tensor_core_clocks(*plan, arithmetic_of(problem)));
}

bool takes_weight(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.dtype == kFloat64 || g.image_channels_per_group() * g.feature_channels_per_group() > kFewPairs)
    return false;
  return weight_plan(problem) != nullptr;
}

void run_gather(const ConvProblem& problem) {
  if (problem.linear != nullptr) {
    // Computed twice: its operands are few, and another store would cost every walk registers.
    ConvProblem linear = problem;
    linear.out = problem.linear;
    linear.activation = {};
    linear.linear = nullptr;
    run_gather(linear);
  }
  const ChannelwisePlan& plan = *gather_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_channelwise_gather<kBFloat16>(plan, problem);
    case kFloat16: return run_channelwise_gather<kFloat16>(plan, problem);
    default: return run_channelwise_gather<kFloat32>(plan, problem);
  }
}

void run_weight(const ConvProblem& problem) {
  const ChannelwiseWeightPlan& plan = *weight_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_channelwise_weight<kBFloat16>(plan, problem);
    case kFloat16: return run_channelwise_weight<kFloat16>(plan, problem);
    default: return run_channelwise_weight<kFloat32>(plan, problem);
  }
}

std::size_t weight_workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(weight_plan(problem)->workspace_bytes());
}

}  // namespace

const ConvKernel channelwise_conv{"channelwise_conv", takes_gather, run_gather, true};
const ConvKernel channelwise_conv_transpose{"channelwise_conv_transpose", takes_gather, run_gather, true};
const ConvKernel channelwise_conv_weight{"channelwise_conv_weight", takes_weight, run_weight, false,
                                         weight_workspace_bytes};

}  // namespace adjoint::cuda

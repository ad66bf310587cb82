#include <adjoint/ops/conv/correlation/cuda/sliced.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/slices.h>
#include <adjoint/ops/conv/sums/cuda/slices.h>

#include <cstddef>

namespace adjoint::cuda {
namespace {

/// Plans the faster of the two kernels with slices. Returns false if their tiles give all multiprocessors work without
/// slices, because slices then only cost additions.
bool plan_quickest(const ConvProblem& problem, CorrelationPlan& plan) {
  const bool split = is_split(problem);
  const auto plan_within = [&](const CorrelationPlan* whole, const CorrelationLimits& limits, CorrelationPlan& to) {
    return whole != nullptr && has_few_tiles(*whole) &&
           plan_slices(problem.geometry, problem.role == ConvRole::kImage, arithmetic_of(problem), limits,
                       problem.machine, to);
  };
  const auto of_all = [&](const auto& find) {  // regardless of skipped plans with slices
    const PlansAbove none(PlansAbove::kNone);
    return find(problem);
  };
  const CorrelationPlan* whole = of_all(find_correlation_plan);
  if (whole == nullptr) return false;
  LeastClocks least;
  CorrelationPlan candidate;
  const auto take = [&] {
    if (least.take(slices_clocks(candidate, split, problem.machine))) plan = candidate;
  };
  if (plan_within(whole, kCorrelationLimits, candidate)) take();
  if (plan_within(of_all(find_blocked_plan), kBlockedLimits, candidate)) take();
  return least.found();
}

}  // namespace

const CorrelationPlan* find_sliced_plan(const ConvProblem& problem) {
  return keep_plan<CorrelationPlan>(problem, [&](CorrelationPlan& plan) { return plan_quickest(problem, plan); });
}

namespace {

bool takes(const ConvProblem& problem) {
  return problem.dtype != kFloat64 && runs_wgmma(problem.device) && find_sliced_plan(problem) != nullptr;
}

void run(const ConvProblem& problem) {
  const CorrelationPlan& plan = *find_sliced_plan(problem);
  const Workspace partial(static_cast<std::size_t>(slices_bytes(plan)), problem.device);
  ConvProblem slices = problem;
  slices.bias = nullptr;
  slices.out = partial.data();
  slices.activation = {};
  slices.linear = nullptr;
  if (plan.blocked) {
    run_blocked(plan, slices, true);
  } else {
    run_correlation(plan, slices, true);
  }
  add_slices(problem, static_cast<const float*>(partial.data()), plan.slices);
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  const CorrelationPlan& plan = *find_sliced_plan(problem);
  return static_cast<std::size_t>(plan.filter_units() * 4 + (plan.blocked ? plan.copy().bytes() : 0) +
                                  slices_bytes(plan));
}

}  // namespace

const ConvKernel sliced_conv{.name = "sliced_conv", .supports = takes, .run = run, .workspace_bytes = workspace_bytes};
const ConvKernel sliced_conv_transpose{.name = "sliced_conv_transpose",
                                       .supports = takes,
                                       .run = run,
                                       .workspace_bytes = workspace_bytes};

}  // namespace adjoint::cuda

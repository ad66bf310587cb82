// Plans and calls the kernels for few results a position with long sums. Each dtype is one translation unit.
#include <adjoint/ops/conv/few_results/cuda/few_results.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/sums/cuda/slices.h>

#include <cstddef>

namespace adjoint::cuda {

const FewResultsPlan* find_few_results_plan(const ConvProblem& problem) {
  return keep_plan<FewResultsPlan>(problem, [&](FewResultsPlan& plan) {
    return plan_few_results(problem.geometry, problem.role == ConvRole::kImage, problem.machine, plan);
  });
}

const FewWeightPlan* find_few_weight_plan(const ConvProblem& problem) {
  return keep_plan<FewWeightPlan>(problem, [&](FewWeightPlan& plan) {
    return plan_few_weight(problem.geometry, problem.machine, plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) {
  return problem.dtype != kFloat64 && find_few_results_plan(problem) != nullptr;
}
bool takes_weight(const ConvProblem& problem) {
  return problem.dtype != kFloat64 && find_few_weight_plan(problem) != nullptr;
}

/// run(partial), with memory for the sums of the plan's slices if it has several, which are then added up.
template <class Plan, class Run>
void run_slices(const Plan& plan, const ConvProblem& problem, const Run& run) {
  if (plan.slices == 1) return run(nullptr);
  const Workspace partial(static_cast<std::size_t>(plan.workspace_bytes()), problem.device);
  run(static_cast<float*>(partial.data()));
  add_slices(problem, static_cast<const float*>(partial.data()), plan.slices);
}

void run(const ConvProblem& problem) {
  const FewResultsPlan& plan = *find_few_results_plan(problem);
  run_slices(plan, problem, [&](float* partial) {
    switch (problem.dtype) {
      case kBFloat16: return run_few_results<kBFloat16>(plan, problem, partial);
      case kFloat16: return run_few_results<kFloat16>(plan, problem, partial);
      default: return run_few_results<kFloat32>(plan, problem, partial);
    }
  });
}

void run_weight(const ConvProblem& problem) {
  const FewWeightPlan& plan = *find_few_weight_plan(problem);
  run_slices(plan, problem, [&](float* partial) {
    switch (problem.dtype) {
      case kBFloat16: return run_few_weight<kBFloat16>(plan, problem, partial);
      case kFloat16: return run_few_weight<kFloat16>(plan, problem, partial);
      default: return run_few_weight<kFloat32>(plan, problem, partial);
    }
  });
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(find_few_results_plan(problem)->workspace_bytes());
}
std::size_t weight_workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(find_few_weight_plan(problem)->workspace_bytes());
}

constexpr ConvKernel gather(const char* name) {
  return {.name = name, .supports = takes, .run = run, .workspace_bytes = workspace_bytes};
}

constexpr ConvKernel weight(const char* name) {
  return {.name = name, .supports = takes_weight, .run = run_weight, .workspace_bytes = weight_workspace_bytes};
}

}  // namespace

const ConvKernel few_results_conv = gather("few_results_conv");
const ConvKernel few_results_conv_transpose = gather("few_results_conv_transpose");
const ConvKernel few_results_conv_weight = weight("few_results_conv_weight");

}  // namespace adjoint::cuda

// Plans and calls the tensor-core kernel of conv_weight that reads copies in channel blocks. There is one translation
// unit for each arithmetic.
#include <adjoint/ops/conv/weight/cuda/blocks/blocked.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/sums/cuda/taps.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

const BlockedWeightPlan* find_blocked_weight_plan(const ConvProblem& problem) {
  return keep_plan<BlockedWeightPlan>(problem, [&](BlockedWeightPlan& plan) {
    return plan_blocked_weight(problem.geometry, problem.machine, plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) {
  if (element_size(problem.dtype) != 2 || problem.geometry.groups != 1 || !runs_wgmma(problem.device)) return false;
  return find_blocked_weight_plan(problem) != nullptr;
}

void run(const ConvProblem& problem) {
  const BlockedWeightPlan& plan = *find_blocked_weight_plan(problem);
  const auto workspace = [&](std::int64_t bytes) { return Workspace(static_cast<std::size_t>(bytes), problem.device); };
  const Workspace image = workspace(plan.image.bytes()), feature = workspace(plan.feature.bytes()),
                  sums = workspace(plan.sums_bytes());
  const BlockedWeightSpaces spaces{image.data(), feature.data(), static_cast<float*>(sums.data())};
  if (problem.dtype == kBFloat16) {
    run_blocked_weight<Arithmetic::kBFloat16>(plan, problem, spaces);
  } else {
    run_blocked_weight<Arithmetic::kFloat16>(plan, problem, spaces);
  }
  gather_taps(plan.gather, problem.dtype, sums.data(), problem.out, problem.device);
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  const BlockedWeightPlan& plan = *find_blocked_weight_plan(problem);
  return static_cast<std::size_t>(plan.image.bytes() + plan.feature.bytes() + plan.sums_bytes());
}

}  // namespace

const ConvKernel blocked_conv_weight{.name = "blocked_conv_weight",
                                     .supports = takes,
                                     .run = run,
                                     .workspace_bytes = workspace_bytes};

}  // namespace adjoint::cuda

// Plans and calls the tensor-core kernel that reads a copy in channel blocks. Each arithmetic is one translation unit.
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>

#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace adjoint::cuda {

const CorrelationPlan* find_blocked_plan(const ConvProblem& problem) {
  return keep_plan<CorrelationPlan>(problem, [&](CorrelationPlan& plan) {
    return plan_correlation(problem.geometry, problem.role == ConvRole::kImage, arithmetic_of(problem), kBlockedLimits,
                            problem.machine, plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) {
  return problem.dtype != kFloat64 && runs_wgmma(problem.device) && find_blocked_plan(problem) != nullptr;
}

void run(const ConvProblem& problem) { run_blocked(*find_blocked_plan(problem), problem); }

std::size_t workspace_bytes(const ConvProblem& problem) {
  const CorrelationPlan& plan = *find_blocked_plan(problem);
  return static_cast<std::size_t>(plan.filter_units() * 4 + plan.copy().bytes());
}

}  // namespace

void run_blocked(const CorrelationPlan& plan, const ConvProblem& problem, bool partial) {
  const CorrelationOperands operands = correlation_operands(plan, problem, partial);
  switch (arithmetic_of(problem)) {
    case Arithmetic::kTF32: return run_blocked<Arithmetic::kTF32>(plan, operands, problem);
    case Arithmetic::kFloat32: return run_blocked<Arithmetic::kFloat32>(plan, operands, problem);
    case Arithmetic::kBFloat16: return run_blocked<Arithmetic::kBFloat16>(plan, operands, problem);
    case Arithmetic::kFloat16: return run_blocked<Arithmetic::kFloat16>(plan, operands, problem);
  }
}

const ConvKernel blocked_conv{.name = "blocked_conv",
                              .supports = takes,
                              .run = run,
                              .workspace_bytes = workspace_bytes};
const ConvKernel blocked_conv_transpose{.name = "blocked_conv_transpose",
                                        .supports = takes,
                                        .run = run,
                                        .workspace_bytes = workspace_bytes};

}  // namespace adjoint::cuda

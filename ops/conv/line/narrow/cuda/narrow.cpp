// Plans and calls the kernel for few results a position. Each dtype is one translation unit.
#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>

#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/machine.h>

namespace adjoint::cuda {

const NarrowPlan* find_narrow_plan(const ConvProblem& problem) {
  return keep_plan<NarrowPlan>(problem, [&](NarrowPlan& plan) {
    return plan_narrow(problem.geometry, problem.role == ConvRole::kImage, arithmetic_of(problem), plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) { return problem.dtype != kFloat64 && find_narrow_plan(problem) != nullptr; }

void run(const ConvProblem& problem) {
  const NarrowPlan& plan = *find_narrow_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_narrow<kBFloat16>(plan, problem);
    case kFloat16: return run_narrow<kFloat16>(plan, problem);
    default: return run_narrow<kFloat32>(plan, problem);
  }
}

}  // namespace

const ConvKernel narrow_conv{.name = "narrow_conv", .supports = takes, .run = run};
const ConvKernel narrow_conv_transpose{.name = "narrow_conv_transpose", .supports = takes, .run = run};

}  // namespace adjoint::cuda

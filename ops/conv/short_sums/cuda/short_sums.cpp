// Plans and calls the kernels for few products a result. Each dtype is one translation unit.
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/short_sums/cuda/short_sums.h>

namespace adjoint::cuda {

const ShortSumsPlan* find_short_sums_plan(const ConvProblem& problem) {
  return keep_plan<ShortSumsPlan>(problem, [&](ShortSumsPlan& plan) {
    return plan_short_sums(problem.geometry, problem.role == ConvRole::kImage, problem.machine, plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) { return problem.dtype != kFloat64 && find_short_sums_plan(problem) != nullptr; }

void run(const ConvProblem& problem) {
  const ShortSumsPlan& plan = *find_short_sums_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_short_sums<kBFloat16>(plan, problem);
    case kFloat16: return run_short_sums<kFloat16>(plan, problem);
    default: return run_short_sums<kFloat32>(plan, problem);
  }
}

}  // namespace

const ConvKernel short_sums_conv{.name = "short_sums_conv", .supports = takes, .run = run};
const ConvKernel short_sums_conv_transpose{.name = "short_sums_conv_transpose", .supports = takes, .run = run};

}  // namespace adjoint::cuda

// Chooses and calls the kernel for few results a position. Its code is in one .cu file a dtype.
#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>

#include <adjoint/ops/conv/base/cuda/hopper.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>

namespace adjoint::cuda {

const NarrowPlan* find_narrow_plan(const ConvProblem& problem) {
  return keep_plan<NarrowPlan>(problem, [&](NarrowPlan& plan) {
    return plan_narrow(problem.geometry, problem.role == ConvRole::kImage, element_size(problem.dtype), plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) { return problem.dtype != kFloat64 && find_narrow_plan(problem) != nullptr; }

bool pays(const ConvProblem& problem) {
  const NarrowPlan& plan = *find_narrow_plan(problem);
  const int unit = unit_elements(arithmetic_of(problem));
  if (!narrow_pays(plan, unit, is_split(problem))) return false;
  // The plans of what wgmma runs know better what tensor cores take.
  constexpr double kMargin = .95;
  return !runs_wgmma(problem.device) || narrow_clocks(plan, unit) < kMargin * kMultiprocessors * wgmma_clocks(problem);
}

void run(const ConvProblem& problem) {
  const NarrowPlan& plan = *find_narrow_plan(problem);
  switch (problem.dtype) {
    case kBFloat16: return run_narrow<kBFloat16>(plan, problem);
    case kFloat16: return run_narrow<kFloat16>(plan, problem);
    default: return run_narrow<kFloat32>(plan, problem);
  }
}

}  // namespace

const ConvKernel narrow_conv{.name = "narrow_conv", .takes = takes, .run = run, .activates = true, .pays = pays};
const ConvKernel narrow_conv_transpose{
    .name = "narrow_conv_transpose", .takes = takes, .run = run, .activates = true, .pays = pays};

}  // namespace adjoint::cuda

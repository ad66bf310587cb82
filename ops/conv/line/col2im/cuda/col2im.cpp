// Plans and calls the kernel for few output channels. Each arithmetic is one translation unit.
#include <adjoint/ops/conv/line/col2im/cuda/col2im.h>

#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/machine.h>

namespace adjoint::cuda {

const Col2imPlan* find_col2im_plan(const ConvProblem& problem) {
  return keep_plan<Col2imPlan>(problem, [&](Col2imPlan& plan) {
    return plan_col2im(problem.geometry, problem.role == ConvRole::kImage, arithmetic_of(problem), problem.machine,
                       plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) {
  return problem.dtype == kFloat32 && runs_wgmma(problem.device) && find_col2im_plan(problem) != nullptr;
}

void run(const ConvProblem& problem) {
  const Col2imPlan& plan = *find_col2im_plan(problem);
  if (is_split(problem)) return run_col2im<Arithmetic::kFloat32>(plan, problem);
  run_col2im<Arithmetic::kTF32>(plan, problem);
}

}  // namespace

const ConvKernel col2im_conv{.name = "col2im_conv", .supports = takes, .run = run};
const ConvKernel col2im_conv_transpose{.name = "col2im_conv_transpose", .supports = takes, .run = run};

}  // namespace adjoint::cuda

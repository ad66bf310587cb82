// Chooses and calls the kernel for few output channels. Its code is in one .cu file an arithmetic.
#include <adjoint/ops/conv/line/col2im/cuda/col2im.h>

#include <adjoint/ops/conv/base/cuda/hopper.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/correlation/clocks.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>
#include <adjoint/ops/conv/line/packed/cuda/packed.h>

namespace adjoint::cuda {
namespace {

const Col2imPlan* find_plan(const ConvProblem& problem) {
  return keep_plan<Col2imPlan>(problem, [&](Col2imPlan& plan) {
    return plan_col2im(problem.geometry, problem.role == ConvRole::kImage, is_split(problem), plan);
  });
}

bool takes(const ConvProblem& problem) {
  return problem.dtype == kFloat32 && runs_wgmma(problem.device) && find_plan(problem) != nullptr;
}

bool pays(const ConvProblem& problem) {
  const Col2imPlan& plan = *find_plan(problem);
  // The rows' length decides, not where the tensor begins: an address must not choose the bits.
  if (plan.w.source % plan.vector != 0) return false;
  const double clocks = col2im_clocks(plan);
  const PackedPlan* packed = find_packed_plan(problem);
  if (packed != nullptr && clocks >= packed_clocks(*packed)) return false;
  const NarrowPlan* narrow = find_narrow_plan(problem);
  if (narrow != nullptr && clocks >= narrow_clocks(*narrow, unit_elements(arithmetic_of(problem)))) return false;
  const CorrelationPlan* correlation = find_correlation_plan(problem);
  return correlation == nullptr || clocks < kMultiprocessors * correlation_clocks(*correlation, is_split(problem));
}

void run(const ConvProblem& problem) {
  const Col2imPlan& plan = *find_plan(problem);
  if (is_split(problem)) return run_col2im<Arithmetic::kFloat32>(plan, problem);
  run_col2im<Arithmetic::kTF32>(plan, problem);
}

}  // namespace

const ConvKernel col2im_conv{.name = "col2im_conv", .takes = takes, .run = run, .activates = true, .pays = pays};
const ConvKernel col2im_conv_transpose{
    .name = "col2im_conv_transpose", .takes = takes, .run = run, .activates = true, .pays = pays};

}  // namespace adjoint::cuda

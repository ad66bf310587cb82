// Chooses and calls the kernel for few results a position and several taps. Its code is in one .cu file an arithmetic.
#include <adjoint/ops/conv/line/packed/cuda/packed.h>

#include <adjoint/ops/conv/base/cuda/hopper.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>

namespace adjoint::cuda {

const PackedPlan* find_packed_plan(const ConvProblem& problem) {
  return keep_plan<PackedPlan>(problem, [&](PackedPlan& plan) {
    return plan_packed(problem.geometry, problem.role == ConvRole::kImage, element_size(problem.dtype),
                       arithmetic_of(problem) == Arithmetic::kFloat32, plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) {
  return problem.dtype != kFloat64 && runs_wgmma(problem.device) && find_packed_plan(problem) != nullptr;
}

/// Of the clocks that `blocked` or `correlation` take, the share below which this kernel is quicker, by the measured
/// times of some thirty layers beside what the models say.
double quicker_share(const PackedPlan& plan, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kTF32 || arithmetic == Arithmetic::kFloat32) return 0.9;
  const bool row = plan.h.source == 1 && plan.w.phases <= 2;
  return row ? 1.3 : 1.1;
}

/// Where rows do not begin at multiples of 16 bytes they are read element by element, which costs more than it saves.
/// The rows' length decides, not where the tensor begins: an address must not choose the bits.
bool pays(const ConvProblem& problem) {
  const PackedPlan& plan = *find_packed_plan(problem);
  if (plan.w.source % plan.vector != 0) return false;
  const double clocks = packed_clocks(plan);
  const bool by_lines = packed_pays(plan);
  const bool by_plans = clocks < quicker_share(plan, arithmetic_of(problem)) * kMultiprocessors * wgmma_clocks(problem);
  // Of halves one model sees layers that the other does not; of floats each takes some for quicker that are not.
  const bool half = element_size(problem.dtype) == 2;
  if (half ? !(by_lines || by_plans) : !(by_lines && by_plans)) return false;
  const NarrowPlan* narrow = find_narrow_plan(problem);
  return narrow == nullptr || clocks < narrow_clocks(*narrow, plan.unit_channels);
}

void run(const ConvProblem& problem) {
  const PackedPlan& plan = *find_packed_plan(problem);
  switch (arithmetic_of(problem)) {
    case Arithmetic::kBFloat16: return run_packed<Arithmetic::kBFloat16>(plan, problem);
    case Arithmetic::kFloat16: return run_packed<Arithmetic::kFloat16>(plan, problem);
    case Arithmetic::kTF32: return run_packed<Arithmetic::kTF32>(plan, problem);
    default: return run_packed<Arithmetic::kFloat32>(plan, problem);
  }
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(find_packed_plan(problem)->workspace_bytes());
}

}  // namespace

const ConvKernel packed_conv{.name = "packed_conv",
                             .takes = takes,
                             .run = run,
                             .activates = true,
                             .workspace_bytes = workspace_bytes,
                             .pays = pays};
const ConvKernel packed_conv_transpose{.name = "packed_conv_transpose",
                                       .takes = takes,
                                       .run = run,
                                       .activates = true,
                                       .workspace_bytes = workspace_bytes,
                                       .pays = pays};

}  // namespace adjoint::cuda

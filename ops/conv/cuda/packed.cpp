// Chooses and calls the kernel for few results a position and several taps. Its code is in one .cu file an arithmetic.
#include <adjoint/ops/conv/cuda/packed.h>

#include <adjoint/ops/conv/correlation_clocks.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/ops/conv/cuda/hopper.h>
#include <adjoint/ops/conv/cuda/kept_plans.h>
#include <adjoint/ops/conv/cuda/narrow.h>
#include <adjoint/ops/conv/tensor_core_clocks.h>

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

/// Where rows do not begin at multiples of 16 bytes they are read element by element, which costs more than it saves.
/// The rows' length decides, not where the tensor begins: an address must not choose the bits.
bool pays(const ConvProblem& problem) {
  const PackedPlan& plan = *find_packed_plan(problem);
  if (plan.w.source % plan.vector != 0 || !packed_pays(plan)) return false;
  if (arithmetic_of(problem) == Arithmetic::kTF32) {
    // Of ten such layers' times those of this kernel are 1.2 of its clocks, in the mean; the other's, some 1.1.
    const CorrelationPlan* other = find_correlation_plan(problem);
    constexpr double kMeasured = 0.9;
    if (other != nullptr && packed_clocks(plan) > kMeasured * kMultiprocessors * correlation_clocks(*other, false))
      return false;
  }
  const NarrowPlan* narrow = find_narrow_plan(problem);
  return narrow == nullptr || packed_clocks(plan) < narrow_clocks(*narrow, plan.unit_channels);
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

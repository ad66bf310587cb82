// Plans and calls the kernel for few results a position and several taps. Each arithmetic is one translation unit.
#include <adjoint/ops/conv/line/packed/cuda/packed.h>

#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/machine.h>

namespace adjoint::cuda {

const PackedPlan* find_packed_plan(const ConvProblem& problem) {
  return keep_plan<PackedPlan>(problem, [&](PackedPlan& plan) {
    return plan_packed(problem.geometry, problem.role == ConvRole::kImage, arithmetic_of(problem), plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) {
  return problem.dtype != kFloat64 && runs_wgmma(problem.device) && find_packed_plan(problem) != nullptr;
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

const ConvKernel packed_conv{.name = "packed_conv", .supports = takes, .run = run, .workspace_bytes = workspace_bytes};
const ConvKernel packed_conv_transpose{.name = "packed_conv_transpose",
                                       .supports = takes,
                                       .run = run,
                                       .workspace_bytes = workspace_bytes};

}  // namespace adjoint::cuda

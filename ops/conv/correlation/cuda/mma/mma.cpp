#include <adjoint/ops/conv/correlation/cuda/mma/mma.h>

#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/correlation/cuda/mma/plan.h>

namespace adjoint::cuda {
namespace {

/// Plans are kept separately for each amount of shared memory.
template <const CorrelationLimits& kLimits>
const CorrelationPlan* find_plan(const ConvProblem& problem) {
  return keep_plan<CorrelationPlan>(problem, [&](CorrelationPlan& plan) {
    return plan_correlation_mma(problem.geometry, problem.role == ConvRole::kImage, arithmetic_of(problem), kLimits,
                                problem.machine, plan);
  });
}

}  // namespace

const CorrelationPlan* find_mma_plan(const ConvProblem& problem) {
  const int bytes = gpu_of(problem.device).smem_bytes;
  return bytes >= kMmaLimits.smem_bytes_per_sm ? find_plan<kMmaLimits>(problem) : find_plan<kSmallMmaLimits>(problem);
}

namespace {

bool takes(const ConvProblem& problem) {
  if (problem.dtype == kFloat64 || gpu_of(problem.device).architecture < 80) return false;
  return find_mma_plan(problem) != nullptr;
}

void run(const ConvProblem& problem) {
  const CorrelationPlan& plan = *find_mma_plan(problem);
  switch (arithmetic_of(problem)) {
    case Arithmetic::kTF32: return run_correlation_mma<Arithmetic::kTF32>(plan, problem);
    case Arithmetic::kFloat32: return run_correlation_mma<Arithmetic::kFloat32>(plan, problem);
    case Arithmetic::kBFloat16: return run_correlation_mma<Arithmetic::kBFloat16>(plan, problem);
    case Arithmetic::kFloat16: return run_correlation_mma<Arithmetic::kFloat16>(plan, problem);
  }
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(find_mma_plan(problem)->filter_units() * 4);
}

}  // namespace

const ConvKernel mma_conv{"mma_conv", takes, run, workspace_bytes};
const ConvKernel mma_conv_transpose{"mma_conv_transpose", takes, run, workspace_bytes};

}  // namespace adjoint::cuda

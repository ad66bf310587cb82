#include <adjoint/ops/conv/correlation/cuda/correlation.h>

#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>

#include <cstddef>

namespace adjoint::cuda {

const CorrelationPlan* find_correlation_plan(const ConvProblem& problem) {
  const Arithmetic arithmetic = arithmetic_of(problem);
  return keep_plan<CorrelationPlan>(problem, [&](CorrelationPlan& plan) {
    return plan_correlation(problem.geometry, problem.role == ConvRole::kImage, arithmetic, kCorrelationLimits,
                            problem.machine, plan);
  });
}

CorrelationOperands correlation_operands(const CorrelationPlan& plan, const ConvProblem& problem, bool partial) {
  const std::int64_t size = element_size(problem.dtype);
  CorrelationOperands operands{problem.first,
                               nullptr,
                               problem.bias,
                               problem.out,
                               correlation_load_bytes(plan, problem.first, size),
                               correlation_store_vector(plan, problem, partial ? sizeof(float) : size),
                               Activate<float>(problem.activation),
                               problem.linear,
                               partial};
  if (problem.dtype == kFloat32 || plan.unit_columns == 2) {
    set_correlation_ways(plan, arithmetic_of(problem) == Arithmetic::kFloat32, encode_tensor_map, operands);
    if (problem.read_again) operands.stores_boxes = false;
  }
  return operands;
}

namespace {

void run_in_arithmetic(const CorrelationPlan& plan, const ConvProblem& problem, bool partial) {
  const CorrelationOperands operands = correlation_operands(plan, problem, partial);
  switch (arithmetic_of(problem)) {
    case Arithmetic::kTF32: return run_correlation<Arithmetic::kTF32>(plan, operands, problem);
    case Arithmetic::kFloat32: return run_correlation<Arithmetic::kFloat32>(plan, operands, problem);
    case Arithmetic::kBFloat16: return run_correlation<Arithmetic::kBFloat16>(plan, operands, problem);
    case Arithmetic::kFloat16: return run_correlation<Arithmetic::kFloat16>(plan, operands, problem);
  }
}

bool takes(const ConvProblem& problem) {
  if (problem.dtype == kFloat64 || !runs_wgmma(problem.device)) return false;
  return find_correlation_plan(problem) != nullptr;
}

void run(const ConvProblem& problem) { run_correlation(*find_correlation_plan(problem), problem); }

std::size_t workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(find_correlation_plan(problem)->filter_units() * 4);
}

}  // namespace

void run_correlation(const CorrelationPlan& plan, const ConvProblem& problem, bool partial) {
  const bool moves = plan.unit_columns == 2 && !correlation_loads_boxes(plan, problem.first);
  if (!moves) return run_in_arithmetic(plan, problem, partial);
  const auto bytes = static_cast<std::size_t>(correlation_input_bytes(plan));
  const Workspace aligned(bytes, problem.device);
  const Device device(DeviceType::kCUDA, problem.device);
  copy_bytes(aligned.data(), device, problem.first, device, bytes);
  ConvProblem from_there = problem;
  from_there.first = aligned.data();
  run_in_arithmetic(plan, from_there, partial);
}

const ConvKernel correlation_conv{"correlation_conv", takes, run, workspace_bytes};
const ConvKernel correlation_conv_transpose{"correlation_conv_transpose", takes, run, workspace_bytes};

}  // namespace adjoint::cuda

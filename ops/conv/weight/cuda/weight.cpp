#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/weight/boxes_plan.h>
#include <adjoint/ops/conv/weight/cuda/mma_plan.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>

namespace adjoint::cuda {

const WeightPlan* find_mma_weight_plan(const ConvProblem& problem) {
  const Arithmetic arithmetic = arithmetic_of(problem);
  return keep_plan<WeightPlan>(problem, [&](WeightPlan& plan) {
    return plan_weight(problem.geometry, arithmetic, problem.machine, plan);
  });
}

const WeightPlan* find_wgmma_weight_plan(const ConvProblem& problem) {
  const Arithmetic arithmetic = arithmetic_of(problem);
  return keep_plan<WeightPlan>(problem, [&](WeightPlan& plan) {
    return plan_wgmma_weight(problem.geometry, arithmetic, problem.machine, plan);
  });
}

const WeightPlan* find_boxes_weight_plan(const ConvProblem& problem) {
  const Arithmetic arithmetic = arithmetic_of(problem);
  return keep_plan<WeightPlan>(problem, [&](WeightPlan& plan) {
    return plan_boxed_weight(problem.geometry, arithmetic, problem.machine, plan);
  });
}

namespace {

bool has_tensor_cores(int device) { return gpu_of(device).architecture >= 80; }

// sm_86 and sm_89 have 99 KB a block, sm_80 has 163.
bool fits_shared_memory(const WeightPlan& plan, int device) {
  return weight_smem_bytes(plan) <= gpu_of(device).smem_bytes_a_block;
}

bool takes(const ConvProblem& problem) {
  if (problem.dtype == kFloat64 || !has_tensor_cores(problem.device)) return false;
  const WeightPlan* plan = find_mma_weight_plan(problem);
  return plan != nullptr && fits_shared_memory(*plan, problem.device);
}

void run(const ConvProblem& problem) {
  const WeightPlan& plan = *find_mma_weight_plan(problem);
  switch (arithmetic_of(problem)) {
    case Arithmetic::kTF32: return run_weight<Arithmetic::kTF32>(plan, problem);
    case Arithmetic::kFloat32: return run_weight<Arithmetic::kFloat32>(plan, problem);
    case Arithmetic::kBFloat16: return run_weight<Arithmetic::kBFloat16>(plan, problem);
    case Arithmetic::kFloat16: return run_weight<Arithmetic::kFloat16>(plan, problem);
  }
}

bool takes_wgmma(const ConvProblem& problem) {
  constexpr std::int64_t kMostTaps = 1024;  // with more, planning needs a tenth of a second
  if (problem.dtype == kFloat64 || !runs_wgmma(problem.device) || problem.geometry.taps() > kMostTaps) return false;
  return find_wgmma_weight_plan(problem) != nullptr;
}

void run_wgmma(const ConvProblem& problem) {
  const WeightPlan& plan = *find_wgmma_weight_plan(problem);
  switch (arithmetic_of(problem)) {
    case Arithmetic::kTF32: return run_wgmma_weight<Arithmetic::kTF32>(plan, problem);
    case Arithmetic::kFloat32: return run_wgmma_weight<Arithmetic::kFloat32>(plan, problem);
    case Arithmetic::kBFloat16: return run_wgmma_weight<Arithmetic::kBFloat16>(plan, problem);
    case Arithmetic::kFloat16: return run_wgmma_weight<Arithmetic::kFloat16>(plan, problem);
  }
}

bool takes_boxes(const ConvProblem& problem) {
  return problem.dtype != kFloat64 && runs_wgmma(problem.device) && find_boxes_weight_plan(problem) != nullptr;
}

void run_boxes(const ConvProblem& problem) { run_boxes_conv_weight(problem, {}); }

std::size_t workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(weight_workspace_bytes(*find_mma_weight_plan(problem)));
}

std::size_t wgmma_workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(weight_workspace_bytes(*find_wgmma_weight_plan(problem)));
}

std::size_t boxes_workspace_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(weight_workspace_bytes(*find_boxes_weight_plan(problem)));
}

}  // namespace

void run_boxes_conv_weight(const ConvProblem& problem, const WeightOrder& order) {
  run_boxes_conv_weight(*find_boxes_weight_plan(problem), problem, order);
}

void run_boxes_conv_weight(const WeightPlan& plan, const ConvProblem& problem, const WeightOrder& order) {
  switch (arithmetic_of(problem)) {
    case Arithmetic::kTF32: return run_boxes_weight<Arithmetic::kTF32>(plan, problem, order);
    case Arithmetic::kFloat32: return run_boxes_weight<Arithmetic::kFloat32>(plan, problem, order);
    case Arithmetic::kBFloat16: return run_boxes_weight<Arithmetic::kBFloat16>(plan, problem, order);
    case Arithmetic::kFloat16: return run_boxes_weight<Arithmetic::kFloat16>(plan, problem, order);
  }
}

const ConvKernel boxes_conv_weight{.name = "boxes_conv_weight",
                                   .supports = takes_boxes,
                                   .run = run_boxes,
                                   .workspace_bytes = boxes_workspace_bytes};
const ConvKernel wgmma_conv_weight{"wgmma_conv_weight", takes_wgmma, run_wgmma, wgmma_workspace_bytes};
const ConvKernel tensor_core_conv_weight{"tensor_core_conv_weight", takes, run, workspace_bytes};

}  // namespace adjoint::cuda

// Launches the kernels for few results a position. Each dtype is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/few_results/cuda/few_results.h>
#include <adjoint/ops/conv/few_results/cuda/gather.cuh>
#include <adjoint/ops/conv/few_results/cuda/weight.cuh>

namespace adjoint::cuda {

template <DType kDType>
void run_few_results(const FewResultsPlan& plan, const ConvProblem& problem, float* partial) {
  using T = FloatElement<kDType>;
  const few_results::GatherOperands<T> operands{
      static_cast<const T*>(problem.first), static_cast<const T*>(problem.second), static_cast<const T*>(problem.bias),
      static_cast<T*>(problem.out),         static_cast<T*>(problem.linear),       partial,
      Activate<float>(problem.activation)};
  launch(few_results::select_gather<T>(plan),
         {dim3(static_cast<unsigned>(plan.blocks())), dim3(static_cast<unsigned>(plan.threads()))}, problem.device,
         plan, operands);
}

template <DType kDType>
void run_few_weight(const FewWeightPlan& plan, const ConvProblem& problem, float* partial) {
  using T = FloatElement<kDType>;
  const few_results::WeightOperands<T> operands{static_cast<const T*>(problem.first),
                                                static_cast<const T*>(problem.second), static_cast<T*>(problem.out),
                                                partial};
  launch(few_results::select_weight<T>(plan), {dim3(static_cast<unsigned>(plan.blocks())), dim3(kFewThreads)},
         problem.device, plan, operands);
}

}  // namespace adjoint::cuda

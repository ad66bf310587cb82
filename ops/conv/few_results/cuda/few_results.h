// The kernels for few results a position with long sums: float32 products on the ordinary cores, no tensor cores. NaN
// and infinity spread as in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/few_results/plan.h>

namespace adjoint::cuda {

extern const ConvKernel few_results_conv;
extern const ConvKernel few_results_conv_transpose;
extern const ConvKernel few_results_conv_weight;

/// The problem's plans, or null if no plan fits.
const FewResultsPlan* find_few_results_plan(const ConvProblem& problem);
const FewWeightPlan* find_few_weight_plan(const ConvProblem& problem);

/// Enqueue the plan's kernel for the problem on the device's current stream. `partial`: memory for the sums of several
/// slices, else null. One translation unit per dtype.
template <DType kDType>
void run_few_results(const FewResultsPlan& plan, const ConvProblem& problem, float* partial);
template <DType kDType>
void run_few_weight(const FewWeightPlan& plan, const ConvProblem& problem, float* partial);

}  // namespace adjoint::cuda

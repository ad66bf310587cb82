// conv_weight on tensor cores, Ampere's and Hopper's: float32 (three tf32 products), TF32, bfloat16, float16.
//
// Zeros replace values outside the image and the feature, and are multiplied: infinity or NaN in either operand may
// reach every tap of the filter's elements to which its channel contributes, and no other element.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/weight/plan.h>

namespace adjoint::cuda {

extern ADJOINT_API const ConvKernel boxes_conv_weight;  // sm_90, stages by the copy engine
extern const ConvKernel wgmma_conv_weight;              // sm_90
extern const ConvKernel tensor_core_conv_weight;        // mma.sync: sm_80 and later

/// The problem's plans, or null if no plan fits.
const WeightPlan* find_wgmma_weight_plan(const ConvProblem& problem);
const WeightPlan* find_boxes_weight_plan(const ConvProblem& problem);

/// Runs boxes_conv_weight for a filter whose taps are in that order.
void run_boxes_conv_weight(const ConvProblem& problem, const WeightOrder& order);
/// The same with a plan of plan_boxed_weight(): tests use it for tiles that a planner would choose only for large
/// problems.
ADJOINT_API void run_boxes_conv_weight(const WeightPlan& plan, const ConvProblem& problem, const WeightOrder& order);

/// On the device's current stream. There is one translation unit for each arithmetic.
template <Arithmetic kArithmetic>
void run_weight(const WeightPlan& plan, const ConvProblem& problem);
template <Arithmetic kArithmetic>
void run_boxes_weight(const WeightPlan& plan, const ConvProblem& problem, const WeightOrder& order);
template <Arithmetic kArithmetic>
void run_wgmma_weight(const WeightPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

// conv_weight on tensor cores, Ampere's and Hopper's: float32 (three tf32 products), TF32, bfloat16, float16.
//
// Zeros stand in for values outside the image and the feature, and are multiplied: infinity or NaN in either operand
// may reach every tap of the filter's elements that its channel is part of, and no other element.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/weight/plan.h>

namespace adjoint::cuda {

extern ADJOINT_API const ConvKernel boxes_conv_weight;  // sm_90, stages by the copy engine
extern const ConvKernel wgmma_conv_weight;              // sm_90
extern const ConvKernel tensor_core_conv_weight;        // mma.sync: sm_80 and later

/// The problem's plans, null where there are none.
const WeightPlan* find_wgmma_weight_plan(const ConvProblem& problem);
const WeightPlan* find_boxes_weight_plan(const ConvProblem& problem);

/// Runs boxes_conv_weight for a filter that has its taps in that order.
void run_boxes_conv_weight(const ConvProblem& problem, const WeightOrder& order);
/// Likewise in a plan of plan_boxed_weight(): of a tile that tests name, and that a planner would choose for large
/// problems alone.
ADJOINT_API void run_boxes_conv_weight(const WeightPlan& plan, const ConvProblem& problem, const WeightOrder& order);

/// On the device's current stream. One translation unit each.
template <Arithmetic kArithmetic>
void run_weight(const WeightPlan& plan, const ConvProblem& problem);
template <Arithmetic kArithmetic>
void run_boxes_weight(const WeightPlan& plan, const ConvProblem& problem, const WeightOrder& order);
template <Arithmetic kArithmetic>
void run_wgmma_weight(const WeightPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

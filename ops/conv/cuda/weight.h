// conv_weight on tensor cores, Ampere's and Hopper's: float32 (three tf32 products), TF32, bfloat16, float16.
//
// Zeros stand in for values outside the image and the feature, and are multiplied: infinity or NaN in either operand
// may reach every tap of the filter's elements that its channel is part of, and no other element.
#pragma once

#include <adjoint/ops/conv/cuda/arithmetic.h>
#include <adjoint/ops/conv/cuda/dispatch.h>
#include <adjoint/ops/conv/weight_plan.h>

namespace adjoint::cuda {

extern const ConvKernel wgmma_conv_weight;        // sm_90
extern const ConvKernel tensor_core_conv_weight;  // mma.sync: sm_80 and later

/// On the device's current stream. One translation unit each.
template <Arithmetic kArithmetic>
void run_weight(const WeightPlan& plan, const ConvProblem& problem);
template <Arithmetic kArithmetic>
void run_wgmma_weight(const WeightPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

// conv_weight on Hopper's tensor cores from copies of both operands in channel blocks (weight/blocks_plan.h), for many
// channels: bfloat16, float16. Both copies have zeros between rows and images, which are multiplied: infinity or NaN in
// either operand may reach every tap between the value's channel and those of the other.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/weight/blocks_plan.h>

namespace adjoint::cuda {

extern const ConvKernel blocked_conv_weight;

/// The problem's plan, or null if no plan fits.
const BlockedWeightPlan* find_blocked_weight_plan(const ConvProblem& problem);

/// Memory for a call's copies and sums, of the plan's sizes.
struct BlockedWeightSpaces {
  void *image, *feature;
  float* sums;
};

/// Copies both operands and computes the slices' sums, on the device's current stream. There is one translation unit
/// for each arithmetic.
template <Arithmetic kArithmetic>
void run_blocked_weight(const BlockedWeightPlan& plan, const ConvProblem& problem, const BlockedWeightSpaces& spaces);

}  // namespace adjoint::cuda

// The trio with operands in another order (rearranged/plan.h): copies of them, or of results, and whatever kernel is
// best for what is left. Infinity and NaN reach what they reach in that one, where zeros that stand for taps are
// multiplied as in correlation.h.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/rearranged/plan.h>

namespace adjoint::cuda {

extern const ConvKernel rearranged_conv;
extern const ConvKernel rearranged_conv_transpose;
extern const ConvKernel rearranged_conv_weight;

/// The problem's plan, null where there is none.
const RearrangedPlan* find_rearranged_plan(const ConvProblem& problem);

}  // namespace adjoint::cuda

// The trio with operands in another order (rearranged/plan.h): copies of them, or of results, and whatever kernel is
// best for what is left. Infinity and NaN reach what they reach in that one, where zeros that stand for taps are
// multiplied as in correlation.h.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>

namespace adjoint::cuda {

extern const ConvKernel rearranged_conv;
extern const ConvKernel rearranged_conv_transpose;
extern const ConvKernel rearranged_conv_weight;

/// Whether conv_weight is large enough for copies of its operands, and not one for ordinary cores.
bool weight_copies_may_pay(const ConvProblem& problem);

}  // namespace adjoint::cuda

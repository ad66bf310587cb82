// conv and conv_transpose on Hopper's tensor cores where tiles are few: sums in slices (correlation/slices.h), each by
// the kernel of correlation.h or of blocked.h, and their addition with bias and activation. Infinity and NaN reach what
// they reach there.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/correlation/plan.h>

namespace adjoint::cuda {

extern const ConvKernel sliced_conv;
extern const ConvKernel sliced_conv_transpose;

/// The problem's plan, null where there is none.
const CorrelationPlan* find_sliced_plan(const ConvProblem& problem);

}  // namespace adjoint::cuda

// conv and conv_transpose on Hopper's tensor cores if there are few tiles: sums in slices (correlation/slices.h), each
// by the kernel of correlation.h or of blocked.h, and their addition with bias and activation. Infinity and NaN spread
// as in those kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/correlation/plan.h>

namespace adjoint::cuda {

extern const ConvKernel sliced_conv;
extern const ConvKernel sliced_conv_transpose;

/// The problem's plan, or null if no plan fits.
const CorrelationPlan* find_sliced_plan(const ConvProblem& problem);

}  // namespace adjoint::cuda

// The kernel for few output channels: one product of the source and all taps, whose sums are added up where they
// overlap; float32 and TF32, on sm_90. NaN and infinity spread as in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/line/col2im/plan.h>

namespace adjoint::cuda {

extern const ConvKernel col2im_conv;
extern const ConvKernel col2im_conv_transpose;

/// The problem's plan, or null if no plan fits.
const Col2imPlan* find_col2im_plan(const ConvProblem& problem);

/// Enqueues the plan's kernel for the problem on the device's current stream. There is one translation unit for each
/// arithmetic.
template <Arithmetic kArithmetic>
void run_col2im(const Col2imPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

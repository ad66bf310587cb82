// The kernel for few results a position and several taps: wgmma with both operands in shared memory, on sm_90. NaN and
// infinity spread as in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/line/packed/plan.h>

namespace adjoint::cuda {

extern const ConvKernel packed_conv;
extern const ConvKernel packed_conv_transpose;

/// The problem's plan, or null if no plan fits.
const PackedPlan* find_packed_plan(const ConvProblem& problem);

/// Enqueues the plan's kernel for the problem on the device's current stream. There is one translation unit for each
/// arithmetic.
template <Arithmetic kArithmetic>
void run_packed(const PackedPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

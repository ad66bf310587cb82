// The kernel for few results a position: float32 products on the ordinary cores, without tensor cores. NaN and infinity
// spread as in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/line/narrow/plan.h>

namespace adjoint::cuda {

extern const ConvKernel narrow_conv;
extern const ConvKernel narrow_conv_transpose;

/// Kept as described at keep_plan(); null if the kernel does not support the geometry.
const NarrowPlan* find_narrow_plan(const ConvProblem& problem);

/// Enqueues the plan's kernel for the problem on the device's current stream. There is one translation unit for each
/// dtype.
template <DType kDType>
void run_narrow(const NarrowPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

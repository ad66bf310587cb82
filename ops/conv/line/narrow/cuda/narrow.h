// The kernel for few results a position: float32 products on the ordinary cores, no tensor cores. NaN and infinity go
// where they go in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/line/narrow/plan.h>

namespace adjoint::cuda {

extern const ConvKernel narrow_conv;
extern const ConvKernel narrow_conv_transpose;

/// Kept, as keep_plan() says; null where the kernel does not take the geometry.
const NarrowPlan* find_narrow_plan(const ConvProblem& problem);

/// Enqueues the plan's kernel for the problem on the device's current stream. One translation unit a dtype.
template <DType kDType>
void run_narrow(const NarrowPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

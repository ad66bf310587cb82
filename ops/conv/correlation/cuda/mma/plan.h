// The plan of mma.sync's kernels for a problem; separate from mma.h, which the kernels' code includes.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/correlation/plan.h>

namespace adjoint::cuda {

/// Null if no plan fits.
const CorrelationPlan* find_mma_plan(const ConvProblem& problem);

}  // namespace adjoint::cuda

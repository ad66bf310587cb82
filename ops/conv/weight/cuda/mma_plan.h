// The plan of mma.sync's kernel of conv_weight for a problem; separate from weight.h, which the kernels' code includes.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/weight/plan.h>

namespace adjoint::cuda {

/// Null if no plan fits.
const WeightPlan* find_mma_weight_plan(const ConvProblem& problem);

}  // namespace adjoint::cuda

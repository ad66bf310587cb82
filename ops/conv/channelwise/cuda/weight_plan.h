// conv_weight's plan for a problem; separate from channelwise.h, which the kernels' code includes.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/channelwise/plan.h>

namespace adjoint::cuda {

/// Null if no plan fits.
const ChannelwiseWeightPlan* find_channelwise_weight_plan(const ConvProblem& problem);

}  // namespace adjoint::cuda

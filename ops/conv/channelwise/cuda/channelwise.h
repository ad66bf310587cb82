// Kernels for few channels a group, depthwise above all: no tensor cores, a thread walks down a column of the result.
// NaN and infinity go where they go in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/channelwise/plan.h>

namespace adjoint::cuda {

extern const ConvKernel channelwise_conv;
extern const ConvKernel channelwise_conv_transpose;
extern const ConvKernel channelwise_conv_weight;

/// conv's or conv_transpose's plan, null where there is none.
const ChannelwisePlan* find_channelwise_plan(const ConvProblem& problem);

/// Enqueue the plan's kernels for the problem on the device's current stream. One translation unit a dtype.
template <DType kDType>
void run_channelwise_gather(const ChannelwisePlan& plan, const ConvProblem& problem);
template <DType kDType>
void run_channelwise_weight(const ChannelwiseWeightPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

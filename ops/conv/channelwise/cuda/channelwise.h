// Kernels for few channels a group, above all depthwise, without tensor cores: a thread walks down a column of the
// result. NaN and infinity spread as in the plain kernels.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/channelwise/depthwise.h>
#include <adjoint/ops/conv/channelwise/plan.h>

namespace adjoint::cuda {

extern const ConvKernel channelwise_conv;
extern const ConvKernel channelwise_conv_transpose;
extern const ConvKernel channelwise_conv_weight;

/// The plan of conv or conv_transpose, or null if no plan fits.
const ChannelwisePlan* find_channelwise_plan(const ConvProblem& problem);

/// Enqueue the plan's kernels for the problem on the device's current stream. One translation unit per dtype.
template <DType kDType>
void run_channelwise_gather(const ChannelwisePlan& plan, const ConvProblem& problem);
/// For tensors in channels_last that begin at multiples of 16 bytes.
ADJOINT_API void run_depthwise_of(const DepthwisePlan& plan, const ConvProblem& problem);
template <DType kDType>
void run_depthwise(const DepthwisePlan& plan, const ConvProblem& problem);
/// `sums`: the plan's sums_bytes(), which add_slices() adds up.
ADJOINT_API void run_depthwise_weight_of(const DepthwiseWeightPlan& plan, const ConvProblem& problem, float* sums);
template <DType kDType>
void run_depthwise_weight(const DepthwiseWeightPlan& plan, const ConvProblem& problem, float* sums);
template <DType kDType>
void run_channelwise_weight(const ChannelwiseWeightPlan& plan, const ConvProblem& problem);

}  // namespace adjoint::cuda

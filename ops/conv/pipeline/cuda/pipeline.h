// The pipeline's kernels, which compute `conv` and `conv_transpose` of channels_last tensors on sm_90
// (pipeline/plan.h). NaN and infinity go where they go in the plain kernels, and where a tap falls into a halo's zeros
// they are not met.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/ops/elementwise/activation.h>

namespace adjoint::cuda {

/// Channels innermost: source (N, D, H, W, C), filter (K, taps, C), which is conv's own in channels_last, result (N, D,
/// H, W, K). These begin at multiples of 16 bytes; bias (K), or null.
struct PipelineCall {
  const void *source, *filter, *bias;
  void* result;
  Activation activation = {};  // of sum and bias, before they are rounded
};

/// Enqueues the plan's kernel for its arithmetic, halves or TF32, on the device's current stream.
ADJOINT_API void run_pipeline(const PipelinePlan& plan, Arithmetic arithmetic, const PipelineCall& call, int device);
/// There is one translation unit for each arithmetic.
template <Arithmetic kArithmetic>
void run_pipeline_in(const PipelinePlan& plan, const PipelineCall& call, int device);

}  // namespace adjoint::cuda

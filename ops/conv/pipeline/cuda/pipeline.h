// The pipeline's kernels, which compute `conv` and `conv_transpose` of channels_last tensors on sm_90
// (pipeline/plan.h). NaN and infinity reach the same results as in the plain kernels; taps in a halo's zeros do not
// meet them.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/pipeline/few_sources.h>
#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/ops/conv/pipeline/weight_plan.h>
#include <adjoint/ops/elementwise/activation.h>

#include <cstdint>

namespace adjoint::cuda {

/// Channels innermost: source (N, D, H, W, C), filter (K, taps, C), which is conv's own in channels_last, result (N, D,
/// H, W, K). These begin at multiples of 16 bytes; bias (K), or null.
struct PipelineCall {
  const void *source, *filter, *bias;
  void* result;
  Activation activation = {};  // of sum and bias, before they are rounded
  /// The filter is (C, taps, K), which is conv_transpose's own in channels_last. In halves only.
  bool results_innermost = false;
};

/// The operands' dtype.
template <Arithmetic kArithmetic>
inline constexpr DType kPipelineDType = kArithmetic == Arithmetic::kBFloat16  ? kBFloat16
                                        : kArithmetic == Arithmetic::kFloat16 ? kFloat16
                                                                              : kFloat32;

/// Enqueues the plan's kernel for its arithmetic, halves or TF32, on the device's current stream.
ADJOINT_API void run_pipeline(const PipelinePlan& plan, Arithmetic arithmetic, const PipelineCall& call, int device);
/// There is one translation unit for each arithmetic.
template <Arithmetic kArithmetic>
void run_pipeline_in(const PipelinePlan& plan, const PipelineCall& call, int device);

/// The same for sources of a few channels, with the filter in its own order. Only a result whose channels fill 16 bytes
/// must begin at a multiple of 16 bytes.
ADJOINT_API void run_few_sources(const FewSourcesPlan& plan, Arithmetic arithmetic, const PipelineCall& call,
                                 int device);
template <Arithmetic kArithmetic>
void run_few_sources_in(const FewSourcesPlan& plan, const PipelineCall& call, int device);

/// Brings a filter of one group, (Cf, Ci, taps) or in channels_last (Cf, taps, Ci), into the order of PipelineCall, on
/// the device's current stream, with zeros up to multiples of 16 bytes of both channels. transposed: for
/// conv_transpose. element_bytes: 2 or 4.
ADJOINT_API void order_pipeline_filter(const ConvGeometry& geometry, bool transposed, bool is_channels_last,
                                       std::int32_t element_bytes, const void* from, void* to, int device);
/// Copies rows of `channels` elements to rows of a multiple of 16 bytes, with zeros behind them, and back. The padded
/// rows begin at a multiple of 16 bytes.
ADJOINT_API void pad_channels(std::int64_t rows, std::int64_t channels, std::int32_t element_bytes, const void* from,
                              void* to, int device);
ADJOINT_API void crop_channels(std::int64_t rows, std::int64_t channels, std::int32_t element_bytes, const void* from,
                               void* to, int device);

/// Copies an image (N, D, H, W, Ci) of one group to rows of the feature's positions, whose channels are the values that
/// the taps read: (Ci, taps) if taps_are_inner, otherwise (taps, Ci), with zeros outside the image and up to a multiple
/// of 16 bytes. Rows begin at multiples of 16 bytes. For at most kMostCopyBytes of rows, and if a sample's elements,
/// paddings and reaches of taps are below 2^31.
ADJOINT_API void unfold_channels(const ConvGeometry& geometry, bool taps_are_inner, std::int32_t element_bytes,
                                 const void* from, void* to, int device);

/// Channels innermost: image (N, D, H, W, C) and feature (N, D, H, W, K), which begin at multiples of 16 bytes. `sums`:
/// the plan's sums_bytes(), for the caller to put in the filter's order by the plan's `gather`.
struct PipelineWeightCall {
  const void *image, *feature;
  float* sums;
};

/// Enqueues conv_weight's kernel for its arithmetic, halves or TF32, on the device's current stream.
ADJOINT_API void run_pipeline_weight(const PipelineWeightPlan& plan, Arithmetic arithmetic,
                                     const PipelineWeightCall& call, int device);
template <Arithmetic kArithmetic>
void run_pipeline_weight_in(const PipelineWeightPlan& plan, const PipelineWeightCall& call, int device);

}  // namespace adjoint::cuda

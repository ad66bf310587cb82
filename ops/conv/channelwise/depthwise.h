// The schedule of depthwise `conv`, `conv_transpose` of stride 1 and `conv_weight`, of channels_last tensors. Plain C++
// for host and device, tested without a GPU.
//
// A thread has 16 bytes of neighbouring channels at four neighbouring positions of a row of the result. It walks over
// the filter's rows, and reads the source once for all taps and positions of a row. A block keeps the filters of its
// channels in shared memory; both formats store them alike. conv_transpose of stride 1 is conv with the filter turned
// around.
//
// conv_weight walks over the same strips. A thread adds up some neighbouring taps of one row of the filter; its
// neighbours, for the other rows, read the same feature. A block's sums are a slice; another kernel adds the slices
// (sums/cuda/slices.h).
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kDepthwiseThreads = 256, kDepthwiseLanes = 16;  // packs of channels side by side, at most
inline constexpr int kDepthwisePositions = 4;                        // of a thread
inline constexpr int kDepthwisePackBytes = 16, kMostDepthwiseTaps = 81;

struct DepthwisePlan {
  std::int64_t strips;                   // of positions, of all rows and samples
  std::int32_t channels, height, width;  // height and width: the source's
  std::int32_t result_width;
  std::int32_t kernel[2], stride[2], first[2], between[2];  // places: from a result's, of tap 0, from a tap to the next
  bool turned;                                              // tap 0 is the filter's last one
  Divider strips_of_row, result_height;

  ADJOINT_HD std::int32_t taps() const { return kernel[0] * kernel[1]; }
  ADJOINT_HD static constexpr std::int32_t pack(std::int32_t element_bytes) {
    return kDepthwisePackBytes / element_bytes;
  }
  /// Packs of channels side by side in a block.
  ADJOINT_HD std::int32_t lanes(std::int32_t element_bytes) const {
    const std::int32_t packs = channels / pack(element_bytes);
    return packs < kDepthwiseLanes ? packs : kDepthwiseLanes;
  }
  std::int32_t smem_bytes(std::int32_t element_bytes) const {
    return taps() * lanes(element_bytes) * pack(element_bytes) * static_cast<std::int32_t>(sizeof(float));
  }
  /// True if a thread reads a row of the source once, as taps and positions have one place between them.
  ADJOINT_HD bool slides() const { return stride[1] == 1 && between[1] == 1; }
};

/// Returns false unless each channel is a group and channels fill 16 bytes; also for strides of conv_transpose and for
/// large filters.
ADJOINT_API bool plan_depthwise(const ConvGeometry& geometry, bool transposed, std::int32_t element_bytes,
                                DepthwisePlan& plan);
/// The time of the plan's kernel, in clocks of a multiprocessor: its instructions, or its bytes.
ADJOINT_API double depthwise_clocks(const DepthwisePlan& plan, std::int32_t element_bytes, const Machine& machine);

struct DepthwiseWeightPlan {
  DepthwisePlan walk;          // of conv: its result is the feature
  std::int32_t columns;        // neighbouring taps of a thread
  std::int32_t jobs;           // as many taps of each row of the filter
  std::int32_t jobs_of_block;  // of the same strips, side by side
  std::int32_t slices, slice_strips;
  Divider row_jobs;

  /// Strips that a block's threads walk over concurrently.
  ADJOINT_HD std::int32_t walks(std::int32_t element_bytes) const {
    return kDepthwiseThreads / walk.lanes(element_bytes) / jobs_of_block;
  }
  std::int32_t smem_bytes(std::int32_t element_bytes) const {
    return columns * DepthwisePlan::pack(element_bytes) * kDepthwiseThreads * static_cast<std::int32_t>(sizeof(float));
  }
  std::int64_t sums_bytes() const { return std::int64_t{4} * walk.channels * walk.taps() * slices; }
};

/// For a problem of conv_weight; false if plan_depthwise is.
ADJOINT_API bool plan_depthwise_weight(const ConvGeometry& geometry, std::int32_t element_bytes, const Machine& machine,
                                       DepthwiseWeightPlan& plan);
/// The time of the plan's kernels, as depthwise_clocks.
ADJOINT_API double depthwise_weight_clocks(const DepthwiseWeightPlan& plan, std::int32_t element_bytes,
                                           const Machine& machine);

}  // namespace adjoint::cuda

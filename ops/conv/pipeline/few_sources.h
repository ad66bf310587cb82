// The schedule of `conv`, and of `conv_transpose` of stride 1, for channels_last sources of a few channels, such as a
// picture's three, in half precision and TF32. Plain C++ for host and device, tested without a GPU.
//
//     result[position][k] = sum over taps and channels of source[position * stride + shift of tap][channel] * filter[k]
//
// A line of 128 bytes of channels, as the pipeline multiplies, would be mostly padding. Here taps and channels are one
// summed axis, whose operands a warp reads straight from the source: its tile is 32 positions by 64 results (mma.sync).
// A block brings its results' filters into shared memory once, in the order of the products, and stays.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kFewSourcesThreads = 256, kFewSourcesWarps = kFewSourcesThreads / 32;
inline constexpr int kFewSourcesPositions = 32, kFewSourcesResults = 64;  // of a warp's tile
inline constexpr int kFewSourcesColumns = 8;                              // results of a product
inline constexpr int kMostFewSourcesSteps = 40;                           // products one after the other

/// The place that a product's summed index reads: elements and places relative to the position.
struct SourceTap {
  std::int32_t offset;
  std::int16_t y, x;
};

struct FewSourcesPlan {
  std::int32_t positions;                            // of the result, of all samples
  std::int32_t channels, results, height, width;     // height and width: the source's
  std::int32_t summed, steps;                        // taps times channels, and products of as many
  std::int32_t stride[2], first[2], between[2];      // places: from a result's, of tap 0, from a tap to the next
  std::int64_t result_step, channel_step, tap_step;  // elements of the filter
  Divider result_width, result_height, kernel_width;

  std::int32_t tiles() const {
    return static_cast<std::int32_t>((positions + kFewSourcesPositions - 1) / kFewSourcesPositions);
  }
  std::int32_t result_blocks() const { return (results + kFewSourcesResults - 1) / kFewSourcesResults; }
  /// Summed indices of a product.
  ADJOINT_HD static constexpr std::int32_t depth(std::int32_t element_bytes) { return 32 / element_bytes; }
  ADJOINT_HD std::int32_t filter_bytes() const {
    return steps * kFewSourcesResults / kFewSourcesColumns * 32 * 2 * static_cast<std::int32_t>(sizeof(std::uint32_t));
  }
  std::int32_t smem_bytes(std::int32_t element_bytes) const {
    constexpr std::int32_t kEntry = sizeof(SourceTap) + sizeof(std::int32_t);  // and the filter's place
    constexpr std::int32_t kBias = kFewSourcesResults * sizeof(float);
    return filter_bytes() + steps * depth(element_bytes) * kEntry + kBias;
  }
};

/// False for several groups, for strides of conv_transpose, and for long sums.
ADJOINT_API bool plan_few_sources(const ConvGeometry& geometry, bool transposed, bool filter_is_channels_last,
                                  Arithmetic arithmetic, FewSourcesPlan& plan);
/// The time of the plan's kernel, in clocks of a multiprocessor: the instructions of its products, or its bytes.
ADJOINT_API double few_sources_clocks(const FewSourcesPlan& plan, Arithmetic arithmetic, const Machine& machine);

}  // namespace adjoint::cuda

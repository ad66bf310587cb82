// Puts the results of conv_weight's taps, which some kernels compute separately, in the filter's order, and adds up
// slices of their sums.
#pragma once

#include <adjoint/core/base/divider.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kGatherThreads = 256;
inline constexpr int kGatherBytes = 16 << 10;  // of results that a block of threads holds, at most

/// Reorders results: [tap][slice][filter and channel] to [filter and channel][tap].
struct TapGather {
  std::int64_t count;                     // of each tap
  std::int64_t tap_stride, slice_stride;  // elements
  std::int32_t slices;
  bool of_sums;         // results are float32 for every dtype of the filter
  std::int32_t run;     // of a block of threads, a multiple of 16 elements
  std::int32_t vector;  // elements of one access: 16 bytes, or one
  Divider taps;
};

/// For `count` results a tap, with filters of `element_bytes` an element; the caller sets the places of the results.
TapGather tap_gather(std::int64_t count, std::int32_t taps, std::int64_t element_bytes, bool of_sums);

}  // namespace adjoint::cuda

// How the results of conv_weight's taps, which some kernels compute apart, are put in the filter's order, and slices of
// their sums added up.
#pragma once

#include <adjoint/core/divider.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kGatherThreads = 256;
inline constexpr int kGatherBytes = 16 << 10;  // of results that a block of threads holds, at most

/// How results are put in order: [tap][slice][filter and channel] to [filter and channel][tap].
struct TapGather {
  std::int64_t count;                     // of each tap
  std::int64_t tap_stride, slice_stride;  // elements
  std::int32_t slices;
  bool of_sums;         // whether results are float32 whatever the filter is
  std::int32_t run;     // of a block of threads, a multiple of 16 elements
  std::int32_t vector;  // elements that are read at once: 16 bytes, or one
  Divider taps;
};

/// Of `count` results a tap, with filters of so many bytes an element; where the results lie the caller says.
TapGather tap_gather(std::int64_t count, std::int32_t taps, std::int64_t element_bytes, bool of_sums);

}  // namespace adjoint::cuda

// A thread's walk over staged rows: each loaded value is used for all taps of all results that need it.
#pragma once

#include <adjoint/ops/conv/channelwise/plan.h>

namespace adjoint::cuda::channelwise {

/// Calls meet(step, i, values) for each step in [0, kChannelwiseWalk) and row i of the taps, with the kTapsW values at
/// from + (step * shift + i) * row_step, `spacing` apart; for each step in the order of i. kShift is `shift`, or 0 if
/// sharing rows among steps does not pay.
template <int kTapsH, int kTapsW, int kShift, class Meet>
__device__ __forceinline__ void walk(const float* from, int row_step, int shift, int spacing, Meet meet) {
  const auto load = [spacing](const float* row, float(&values)[kTapsW]) {
#pragma unroll
    for (int j = 0; j < kTapsW; ++j) values[j] = row[j * spacing];
  };
  if constexpr (kShift > 0) {
#pragma unroll
    for (int row = 0; row < (kChannelwiseWalk - 1) * kShift + kTapsH; ++row) {
      float values[kTapsW];
      load(from, values);
#pragma unroll
      for (int i = 0; i < kTapsH; ++i) {
        if ((row - i) % kShift == 0 && row >= i && (row - i) / kShift < kChannelwiseWalk) {
          meet((row - i) / kShift, i, values);
        }
      }
      from += row_step;
    }
  } else {
#pragma unroll
    for (int step = 0; step < kChannelwiseWalk; ++step) {
#pragma unroll
      for (int i = 0; i < kTapsH; ++i) {
        float values[kTapsW];
        load(from + i * row_step, values);
        meet(step, i, values);
      }
      from += shift * row_step;
    }
  }
}

}  // namespace adjoint::cuda::channelwise

// Adds a chunk's sums to the results that they overlap, in the kernel for few output channels (kernel.cuh).
#pragma once

#include <adjoint/ops/conv/line/col2im/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/line/col2im/cuda/load.cuh>

#include <cstdint>

namespace adjoint::cuda::col2im {

/// For each row of taps of a channel, the results that it reaches from a row of the source: their shared address; 0: no
/// result. Called by the warpgroup's threads; all earlier sums must have been added.
__device__ __forceinline__ void find_results(const Col2imPlan& p, const Shared& shared, const Col2imTile& tile, int row,
                                             int thread) {
  if (thread >= p.channels * p.kernel_h) return;
  const int channel = thread / p.kernel_h, tap = thread % p.kernel_h;
  const int of_tile = row - p.tap_offset_h[tap] - tile.row;
  const bool inside = of_tile >= 0 && of_tile < tile.rows;
  int position = inside ? of_tile : 0;
  p.ring_divider.split(position);
  const int place = ((position * p.h.phases + p.tap_phase_h[tap]) * p.channels + channel) * p.w.phases * p.result_pitch;
  shared.places[thread] = inside ? ptx::shared_address(shared.results + place) : 0;
}

/// Adds the chunk's sums to the results that they overlap; a thread handles one (row of taps, position) after the
/// other, reading kItems before it writes any. Each of the columns' kPhases has kTaps taps, or fewer unless kFull.
template <int kPhases, int kTaps, bool kFull = true>
__device__ __forceinline__ void add_sums(const Col2imPlan& p, const Shared& shared, const Chunks& at, int thread) {
  constexpr int kItems = 2;
  const int pairs = p.channels * p.kernel_h, items = pairs * p.reached_positions();
  const int first_q = at.column() - p.w.offset[p.w.offsets - 1] - at.tile.column;  // of the tile's positions
  const std::uint32_t first_sum = ptx::shared_address(shared.sums + p.margin - p.w.span());
  const std::uint32_t places = ptx::shared_address(shared.places), pair_bytes = 4 * p.kernel_w * p.sum_pitch;
#pragma unroll 1
  for (int first = thread; first < items; first += kItems * kCol2imConsumers) {
    std::uint32_t sums[kItems], to[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      int position = first + k * kCol2imConsumers;
      const bool exists = position < items;
      const int pair = min(p.reached_divider.split(position), pairs - 1), q = first_q + position;
      const std::uint32_t row = ptx::load_shared(places + 4 * pair);
      sums[k] = first_sum + pair * pair_bytes + 4 * position;
      to[k] = exists && row != 0 && static_cast<unsigned>(q) < static_cast<unsigned>(at.tile.columns) ? row + 4 * q : 0;
    }
    float values[kItems][kPhases], before[kItems][kPhases];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
#pragma unroll
      for (int phase = 0; phase < kPhases; ++phase) {
        values[k][phase] = before[k][phase] = 0;
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          const int place = p.tap_place[phase][i];
          if (!kFull && place == kNoCol2imTap) continue;
          const float value = __uint_as_float(ptx::load_shared(sums[k] + place));
          values[k][phase] = i == 0 ? value : values[k][phase] + value;
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
#pragma unroll
      for (int phase = 0; phase < kPhases; ++phase) {
        if (to[k] != 0) before[k][phase] = __uint_as_float(ptx::load_shared(to[k] + 4 * phase * p.result_pitch));
      }
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
#pragma unroll
      for (int phase = 0; phase < kPhases; ++phase) {
        const float sum = before[k][phase] + values[k][phase];
        if (to[k] != 0) ptx::store_shared(to[k] + 4 * phase * p.result_pitch, __float_as_uint(sum));
      }
    }
  }
}

/// The same for any number of phases and taps.
__device__ __forceinline__ void add_any_sums(const Col2imPlan& p, const Shared& shared, const Chunks& at, int thread) {
  const int items = p.channels * p.kernel_h * p.reached_positions();
  const int first_q = at.column() - p.w.offset[p.w.offsets - 1] - at.tile.column;
  const std::uint32_t first_sum = ptx::shared_address(shared.sums + p.margin - p.w.span());
#pragma unroll 1
  for (int i = thread; i < items; i += kCol2imConsumers) {
    int position = i;
    const int pair = p.reached_divider.split(position), q = first_q + position;
    const std::uint32_t row = shared.places[pair];
    if (row == 0 || q < 0 || q >= at.tile.columns) continue;
    const std::uint32_t sums = first_sum + 4 * (pair * p.kernel_w * p.sum_pitch + position);
#pragma unroll 1
    for (int phase = 0; phase < p.w.phases; ++phase) {
      const std::uint32_t to = row + 4 * (q + phase * p.result_pitch);
      float value = 0;
#pragma unroll 4
      for (int k = 0; k < p.phase_taps; ++k) {
        const int place = p.tap_place[phase][k];
        if (place != kNoCol2imTap) value += __uint_as_float(ptx::load_shared(sums + place));
      }
      ptx::store_shared(to, __float_as_uint(__uint_as_float(ptx::load_shared(to)) + value));
    }
  }
}

__device__ __forceinline__ void add_sums(const Col2imPlan& p, const Shared& shared, const Chunks& at, int thread) {
  const auto key = [](int phases, int taps, bool full) { return (phases * 64 + taps) * 2 + (full ? 1 : 0); };
  switch (key(p.w.phases, p.phase_taps, p.kernel_w == p.w.phases * p.phase_taps)) {
    case key(1, 3, true): return add_sums<1, 3>(p, shared, at, thread);
    case key(1, 5, true): return add_sums<1, 5>(p, shared, at, thread);
    case key(1, 7, true): return add_sums<1, 7>(p, shared, at, thread);
    case key(1, 9, true): return add_sums<1, 9>(p, shared, at, thread);
    case key(2, 2, true): return add_sums<2, 2>(p, shared, at, thread);
    case key(2, 2, false): return add_sums<2, 2, false>(p, shared, at, thread);
    case key(2, 3, true): return add_sums<2, 3>(p, shared, at, thread);
    case key(2, 3, false): return add_sums<2, 3, false>(p, shared, at, thread);
    case key(2, 4, true): return add_sums<2, 4>(p, shared, at, thread);
    case key(2, 4, false): return add_sums<2, 4, false>(p, shared, at, thread);
    case key(2, 5, false): return add_sums<2, 5, false>(p, shared, at, thread);
    case key(3, 3, true): return add_sums<3, 3>(p, shared, at, thread);
    case key(4, 2, true): return add_sums<4, 2>(p, shared, at, thread);
    case key(4, 3, false): return add_sums<4, 3, false>(p, shared, at, thread);
    case key(4, 4, true): return add_sums<4, 4>(p, shared, at, thread);
    case key(4, 7, false): return add_sums<4, 7, false>(p, shared, at, thread);
    default: return add_any_sums(p, shared, at, thread);
  }
}

}  // namespace adjoint::cuda::col2im

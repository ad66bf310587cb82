// Writes staged columns of the tensor-core kernels of conv and conv_transpose: as whole vectors of a row if its phases
// and alignment allow it, else pixel by pixel.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::correlation {

/// The source and destination of a warp's stores. 1 << log2_interleave staged columns, half of them in either half of
/// the staged ones, are neighbouring pixels.
template <class T>
struct StagedColumns {
  T* out;
  const float* staging;
  std::int64_t sample;  // elements of one image of out
  int first_m, lane;
  int first_column;  // of the staged columns, within the tile's half
};

/// The staged column that holds `phase` of the `group`-th pixel.
template <int kStaged>
__device__ __forceinline__ constexpr int staged_slot(int group, int phase, int log2_interleave) {
  if (log2_interleave == 0) return group;
  const int log2_half = log2_interleave - 1;
  return (phase >> log2_half) * (kStaged / 2) + (group << log2_half) + (phase & ((1 << log2_half) - 1));
}

/// kCount neighbouring values, aligned to their size: 16 bytes' worth, two or one.
template <int kCount, class T>
__device__ __forceinline__ void store_vector(T* to, const float (&from)[kCount]) {
  using Vector =
      std::conditional_t<sizeof(T) * kCount == 16, uint4,
                         std::conditional_t<sizeof(T) * kCount == 8, uint2,
                                            std::conditional_t<sizeof(T) * kCount == 4, std::uint32_t, std::uint16_t>>>;
  union {
    T values[kCount];
    Vector vector;
  } packed;
#pragma unroll
  for (int i = 0; i < kCount; ++i) packed.values[i] = from_float<T>(from[i]);
  *reinterpret_cast<Vector*>(to) = packed.vector;
}

/// Stores one phase of a run of columns, channel by channel, to `to` and the planes after it, from the column of a
/// phase `at` values after `from` and those `step` after it, up to the run's `end`. `channel`: the first, which shows
/// when the next row of phases begins. Reads of a few channels come before their stores, so that their latencies
/// overlap.
template <bool kSeveralRows, int kBatch, class T>
__device__ __forceinline__ void store_channels(const CorrelationPlan& p, const float* from, int at, int step, int end,
                                               T* to, std::int64_t plane, int channel) {
  // A run may begin amid a channel's phases, after this one: then the lane waits while others store this channel.
  const auto in_run = [&](int value) { return static_cast<unsigned>(value) < static_cast<unsigned>(end); };
#pragma unroll 1
  for (; at < end; at += kBatch * step) {
    float values[kBatch][1] = {};
    T* places[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      places[i] = to;
      to += plane;
      if (kSeveralRows && ++channel == p.n_channels) {
        channel = 0;
        to += p.out_w - p.n_channels * plane;
      }
      if (in_run(at + i * step)) values[i][0] = from[at + i * step];
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (in_run(at + i * step)) store_vector<1>(places[i], values[i]);
    }
  }
}

/// One pixel at a time, for any stride and for tiles that hold several rows of phases: lanes write neighbouring pixels
/// of a row and move from channel to channel together. Either half of the staged columns is a run of a segment's, which
/// may begin and end amid a channel's phases.
template <bool kSeveralRows, int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_pixels(const CorrelationPlan& p, const CorrelationWork& work,
                                             const StagedColumns<T>& staged) {
  constexpr int kPitch = kWarpPositions + 4, kHalf = kStaged / 2;
  constexpr int kBatch = kHalf == 8 ? 3 : 4;  // a run of eight rarely has more channels; its kernels have few registers
  const bool two_segments = p.segments == 2;
  const int phases = two_segments ? p.out_stride_w >> 1 : p.out_stride_w;  // of a segment
  const bool cut = phases > kHalf;             // a run does not have all phases: lanes write its columns
  const bool together = two_segments && !cut;  // a row's pixels come from both halves in turn
  const int row_positions = min(1 << p.log2_tile_w, kWarpPositions);
  const int pixels = row_positions * (cut ? kHalf : p.out_stride_w);
  const std::int64_t plane = static_cast<std::int64_t>(p.out_h) * p.out_w;
#pragma unroll 1
  for (int first_m = 0; first_m < kWarpPositions; first_m += row_positions) {
    const CorrelationPosition q = correlation_position(p, staged.first_m + first_m);
    const int h = (work.h + q.h) * p.out_stride_h + work.class_index * p.phases_per_class;
    const int w = (work.w + q.w) * p.out_stride_w;
    if (work.n + q.n >= p.batch || h >= p.out_h) continue;
    const int channels = p.n_channels * (kSeveralRows ? min(p.phases_per_class, p.out_h - h) : 1);
#pragma unroll 1
    for (int half = 0; half < (together ? 1 : 2); ++half) {
      int first_phase = work.tile_in_class * (p.tile_columns >> (p.segments - 1)) + staged.first_column +
                        (two_segments ? 0 : half * (p.tile_columns / 2));
      const int columns = min(kHalf, channels * phases - first_phase);  // of the run
      if (columns <= 0) continue;
      int first_channel = p.phase_divider.split(first_phase);
      const int row = kSeveralRows ? p.channel_divider.split(first_channel) : 0;
      T* const to_row = staged.out + (work.n + q.n) * staged.sample +
                        (work.group * p.n_channels + first_channel) * plane +
                        static_cast<std::int64_t>(h + row) * p.out_w + w;
#pragma unroll 1
      for (int pixel = staged.lane; pixel < pixels; pixel += 32) {
        int phase = pixel, m, of_half = half;
        if (cut) {
          m = pixel / kHalf;
          phase = first_phase + pixel % kHalf;
          phase -= phase >= phases ? phases : 0;
        } else {
          m = p.phase_divider.split(phase);
          if (together) {
            of_half = m & 1;
            m >>= 1;
          }
        }
        const int of_row = m * p.out_stride_w + (two_segments ? of_half * phases : 0) + phase;
        if (w + of_row >= p.out_w) continue;
        store_channels<kSeveralRows, kBatch>(p, staged.staging + of_half * kHalf * kPitch + first_m + m,
                                             (phase - first_phase) * kPitch, phases * kPitch, columns * kPitch,
                                             to_row + of_row, plane, first_channel);
      }
    }
  }
}

/// kVector neighbouring pixels from a group's first one on, whose phase is a multiple of kVector or 0.
template <int kVector, int kLog2Interleave, int kStaged, int kPitch>
__device__ __forceinline__ void gather(const float* from, float (&values)[kVector]) {
  constexpr int kPhases = 1 << kLog2Interleave;
  if constexpr (kLog2Interleave == 0 && kVector >= 4) {
#pragma unroll
    for (int i = 0; i < kVector; i += 4) {
      const float4 quad = *reinterpret_cast<const float4*>(from + i);
      values[i] = quad.x;
      values[i + 1] = quad.y;
      values[i + 2] = quad.z;
      values[i + 3] = quad.w;
    }
  } else if constexpr (kLog2Interleave == 0 && kVector == 2) {
    const float2 pair = *reinterpret_cast<const float2*>(from);
    values[0] = pair.x;
    values[1] = pair.y;
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      values[i] = from[staged_slot<kStaged>(0, i % kPhases, kLog2Interleave) * kPitch + i / kPhases];
    }
  }
}

/// kVector neighbouring pixels at a time, if a tile holds one row of phases: staged groups of columns are neighbouring
/// channels, so a lane's places are a constant apart in the staging rows and in out, and no look-up is needed. Reads of
/// a batch come before its stores, so that their latencies overlap.
template <int kVector, int kLog2Interleave, int kStaged, int kWarpPositions, bool kApart, class T>
__device__ __forceinline__ void store_rows(const CorrelationPlan& p, const CorrelationWork& work,
                                           const StagedColumns<T>& staged) {
  constexpr int kPitch = kWarpPositions + 4, kGroups = kStaged >> kLog2Interleave;
  constexpr int kVectors = (kWarpPositions << kLog2Interleave) / kVector;
  constexpr int kLanes = kVectors < 32 ? kVectors : 32, kStep = 32 / kLanes;  // lanes per channel, channels together
  // Without phases the upper half of the staged columns comes from the upper half of the tile's.
  constexpr int kParts = kLog2Interleave == 0 ? 2 : 1, kEach = kGroups / kParts / kStep;
  constexpr int kBatch = kEach < 8 && kEach < 16 / kVector ? kEach : kVector == 1 ? 8 : 16 / kVector;
  static_assert(kEach > 0 && kEach % kBatch == 0);
  constexpr int kSlots =
      kStep * staged_slot<kStaged>(1, 0, kLog2Interleave);  // from one of a lane's groups to the next
  // A half of the staged columns is one segment's, of phases that are powers of two.
  constexpr int kLog2Phases = kLog2Interleave == 0 ? 0 : kLog2Interleave - 1;
  const std::int64_t plane = static_cast<std::int64_t>(p.out_h) * p.out_w, step = kStep * plane;
  const int first = staged.lane / kLanes;
  const int segment_columns = kLog2Interleave == 0 ? p.tile_columns : p.tile_columns / 2;
  const int first_channel = (work.tile_in_class * segment_columns + staged.first_column) >> kLog2Phases;
#pragma unroll 1
  for (int vector = staged.lane % kLanes; vector < kVectors; vector += 32) {
    const int m = (vector * kVector) >> kLog2Interleave, phase = vector * kVector & ((1 << kLog2Interleave) - 1);
    const CorrelationPosition q = correlation_position<kApart>(p, work, staged.first_m + m);
    const int h = (work.h + q.h) * p.out_stride_h + work.class_index;
    const int w = (work.w + q.w) * p.out_stride_w + phase;
    if (work.n + q.n >= p.batch || h >= p.out_h || w >= p.out_w) continue;
    int channels = p.n_channels - (first_channel + first);  // remaining
    T* to = staged.out + (work.n + q.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + w +
            (static_cast<std::int64_t>(work.group) * p.n_channels + first_channel + first) * plane;
    const float* from = staged.staging + staged_slot<kStaged>(first, phase, kLog2Interleave) * kPitch + m;
#pragma unroll 1
    for (int batch = 0; batch < kParts * kEach; batch += kBatch) {
      float values[kBatch][kVector];
      T* places[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        gather<kVector, kLog2Interleave, kStaged, kPitch>(from + i * kSlots * kPitch, values[i]);
        places[i] = to;
        to += step;
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (i * kStep < channels) store_vector<kVector>(places[i], values[i]);
      }
      from += kBatch * kSlots * kPitch;
      channels -= kBatch * kStep;
      if (kParts == 2 && batch + kBatch == kEach) {
        const int jump = (p.tile_columns - kStaged) / 2;
        channels -= jump;
        to += jump * plane;
      }
    }
  }
}

/// Chooses a way to store, the same for the whole launch. kApart: as in store_tile.
template <int kStaged, int kWarpPositions, bool kApart, class T>
__device__ __forceinline__ void store_staged(const CorrelationPlan& p, const CorrelationOperands& operands,
                                             const CorrelationWork& work, const StagedColumns<T>& staged) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  const bool wide = operands.store_vector == kWide, two = operands.store_vector == 2;
  if (p.phases_per_class > 1) {
    store_pixels<true, kStaged, kWarpPositions>(p, work, staged);
  } else if (correlation_stores_pixels(p, operands.store_vector, sizeof(T))) {
    store_pixels<false, kStaged, kWarpPositions>(p, work, staged);
  } else if (p.out_stride_w == 1) {
    if (wide) {
      store_rows<kWide, 0, kStaged, kWarpPositions, kApart>(p, work, staged);
    } else if (two) {
      store_rows<2, 0, kStaged, kWarpPositions, kApart>(p, work, staged);
    } else {
      store_rows<1, 0, kStaged, kWarpPositions, kApart>(p, work, staged);
    }
  } else if (p.out_stride_w == 2) {
    if (wide) {
      store_rows<kWide, 1, kStaged, kWarpPositions, kApart>(p, work, staged);
    } else if (two) {
      store_rows<2, 1, kStaged, kWarpPositions, kApart>(p, work, staged);
    } else {
      store_rows<1, 1, kStaged, kWarpPositions, kApart>(p, work, staged);
    }
  } else if (p.out_stride_w == 4) {
    store_rows<4, 2, kStaged, kWarpPositions, kApart>(p, work, staged);
  } else {
    store_rows<4, 3, kStaged, kWarpPositions, kApart>(p, work, staged);
  }
}

}  // namespace adjoint::cuda::correlation

// How the tensor-core kernel of conv and conv_transpose writes its sums: through a few staged columns a warp, so that
// lanes write along rows of the output.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::correlation {

struct ColumnEntry {
  std::int64_t offset;  // elements from out's first to this column's value at position 0; kNoColumn for none
  std::int16_t h, w;    // added to q * stride
  float bias;
};
inline constexpr std::int64_t kNoColumn = INT64_MIN;

template <class T>
__device__ __forceinline__ void fill_columns(const CorrelationPlan& p, const CorrelationWork& work, const T* bias,
                                             ColumnEntry* entries, int thread) {
  if (thread < p.tile_columns) {
    const CorrelationColumn column = correlation_column(p, work.class_index, work.first_column + thread);
    ColumnEntry entry{kNoColumn, 0, 0, 0.0F};
    if (column.valid) {
      const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.n_channels + column.channel;
      entry.h = static_cast<std::int16_t>(column.phase_h - p.out_offset_h);
      entry.w = static_cast<std::int16_t>(column.phase_w - p.out_offset_w);
      entry.offset = (channel * p.out_h + entry.h) * p.out_w + entry.w;
      entry.bias = bias != nullptr ? to_float(bias[channel]) : 0.0F;
    }
    entries[thread] = entry;
  }
}

/// kCount (16 bytes' worth, or two) neighbouring values.
template <int kCount, class T>
__device__ __forceinline__ void store_vector(T* to, const float* from, float bias) {
  union {
    T values[kCount];
    std::conditional_t<sizeof(T) * kCount == 16, uint4, std::conditional_t<sizeof(T) * kCount == 8, uint2, unsigned>>
        vector;
  } packed;
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const float2 pair = *reinterpret_cast<const float2*>(from + i);
    packed.values[i] = from_float<T>(pair.x + bias);
    packed.values[i + 1] = from_float<T>(pair.y + bias);
  }
  *reinterpret_cast<decltype(packed.vector)*>(to) = packed.vector;
}

/// What a warp stores from, and where to.
template <class T>
struct StagedColumns {
  T* out;
  const ColumnEntry* entries;
  const float* staging;
  std::int64_t sample;  // elements of one image of out
  int first_m, lane;
};

/// kVector neighbouring positions at a time; a lane's place is the same for every column.
template <int kVector, int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_vectors(const CorrelationPlan& p, const CorrelationWork& work,
                                              const StagedColumns<T>& staged) {
  constexpr int kLanesPerColumn = kWarpPositions / kVector;
  constexpr int kColumnsAtOnce = 32 / kLanesPerColumn;
  static_assert(kLanesPerColumn <= 32 && kStaged % kColumnsAtOnce == 0);
  const int m = staged.lane % kLanesPerColumn * kVector;
  const CorrelationPosition q = correlation_position(p, staged.first_m + m);
  const int h = (work.h + q.h) * p.out_stride_h, w = work.w + q.w;
  if (work.n + q.n >= p.batch || w >= p.out_w) return;
  T* to = staged.out + (work.n + q.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + w;
#pragma unroll 4
  for (int column = staged.lane / kLanesPerColumn; column < kStaged; column += kColumnsAtOnce) {
    const ColumnEntry entry = staged.entries[column];
    if (entry.offset != kNoColumn && static_cast<unsigned>(h + entry.h) < static_cast<unsigned>(p.out_h)) {
      store_vector<kVector>(to + entry.offset, staged.staging + column * (kWarpPositions + 4) + m, entry.bias);
    }
  }
}

/// One value at a time, lanes along rows of out: 1 << log2_interleave columns are neighbouring pixels.
template <int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_values(const CorrelationPlan& p, const CorrelationWork& work,
                                             const StagedColumns<T>& staged, int log2_interleave) {
  constexpr int kPitch = kWarpPositions + 4;
  const int mask = (1 << log2_interleave) - 1, group_size = kWarpPositions << log2_interleave;
  const CorrelationPosition first = correlation_position(p, staged.first_m);
  if ((1 << p.log2_tile_w) >= kWarpPositions) {  // all positions in one row: only the column is not the warp's
    const int h = (work.h + first.h) * p.out_stride_h, first_w = (work.w + first.w) * p.out_stride_w;
    if (work.n + first.n >= p.batch) return;
    T* to = staged.out + (work.n + first.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + first_w;
#pragma unroll 4
    for (int e = staged.lane; e < kStaged * kWarpPositions; e += 32) {
      const int within = e & (group_size - 1), phase = e & mask;
      const int column = ((e / kWarpPositions) & ~mask) | phase;
      const int m = within >> log2_interleave;
      const ColumnEntry entry = staged.entries[column];
      const int w = m * p.out_stride_w;
      const bool valid = entry.offset != kNoColumn &&
                         static_cast<unsigned>(h + entry.h) < static_cast<unsigned>(p.out_h) &&
                         static_cast<unsigned>(first_w + entry.w + w) < static_cast<unsigned>(p.out_w);
      const float value = staged.staging[column * kPitch + m] + entry.bias;
      if (valid) to[entry.offset + w] = from_float<T>(value);
    }
    return;
  }
  const int group_lanes = group_size < 32 ? group_size : 32;
  for (int e = staged.lane % group_lanes; e < group_size; e += 32) {
    const int phase = e & mask, m = e >> log2_interleave;
    const CorrelationPosition q = correlation_position(p, staged.first_m + m);
    const int h = (work.h + q.h) * p.out_stride_h, w = (work.w + q.w) * p.out_stride_w;
    const bool in_batch = work.n + q.n < p.batch;
    T* to = staged.out + (work.n + q.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + w;
#pragma unroll 4
    for (int column = ((staged.lane / group_lanes) << log2_interleave) + phase; column < kStaged;
         column += (32 / group_lanes) << log2_interleave) {
      const ColumnEntry entry = staged.entries[column];
      const bool valid = entry.offset != kNoColumn && in_batch &&
                         static_cast<unsigned>(h + entry.h) < static_cast<unsigned>(p.out_h) &&
                         static_cast<unsigned>(w + entry.w) < static_cast<unsigned>(p.out_w);
      const float value = staged.staging[column * kPitch + m] + entry.bias;
      if (valid) to[entry.offset] = from_float<T>(value);
    }
  }
}

/// Stores a warp's sums, some columns at a time through its own staging rows, so that lanes write along rows of out.
/// Only what names registers is unrolled: straight-line code for all columns would not fit the instruction cache.
template <class T, int kColumns, int kMTiles>
__device__ __forceinline__ void store_tile(const CorrelationPlan& p, const CorrelationOperands& operands,
                                           const CorrelationWork& work, const float (&sums)[kMTiles][kColumns / 2],
                                           const ColumnEntry* entries, float* staging, int first_m, int lane) {
  constexpr int kStaged = correlation_staged_columns(kColumns);
  constexpr int kWarpPositions = 16 * kMTiles;
  constexpr int kPitch =
      kWarpPositions + 4;  // 4 modulo 16: the eight-by-four pattern of a fragment hits each bank once
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  const int g = lane / 4, t = lane % 4;
  // Neighbouring columns are phases of neighbouring pixels; lanes run over both where the stride divides kStaged.
  const int stride = p.out_stride_w;
  const int log2_interleave = stride == 2 ? 1 : stride == 4 ? 2 : stride == 8 ? 3 : stride == 16 ? 4 : 0;
  StagedColumns<T> staged{static_cast<T*>(operands.out),
                          entries,
                          staging,
                          static_cast<std::int64_t>(p.groups) * p.n_channels * p.out_h * p.out_w,
                          first_m,
                          lane};
#pragma unroll
  for (int first = 0; first < kColumns; first += kStaged) {
    __syncwarp();
#pragma unroll
    for (int block = 0; block < kStaged / 8; ++block) {
#pragma unroll
      for (int j = 0; j < kMTiles; ++j) {
        float* to = staging + (8 * block + 2 * t) * kPitch + 16 * j + g;
        const float* from = sums[j] + first / 2 + 4 * block;
        to[0] = from[0];
        to[kPitch] = from[1];
        to[8] = from[2];
        to[kPitch + 8] = from[3];
      }
    }
    __syncwarp();
    staged.entries = entries + first;
    if (operands.store_vector == kWide) {
      store_vectors<kWide, kStaged, kWarpPositions>(p, work, staged);
    } else if (operands.store_vector == 2) {
      store_vectors<2, kStaged, kWarpPositions>(p, work, staged);
    } else {
      store_values<kStaged, kWarpPositions>(p, work, staged, log2_interleave);
    }
  }
}

}  // namespace adjoint::cuda::correlation

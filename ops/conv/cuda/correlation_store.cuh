// How the tensor-core kernel of conv and conv_transpose writes its sums: through a few staged columns a warp, so that
// lanes write along rows of the output.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::correlation {

struct alignas(16) ColumnEntry {
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

/// One read of 16 bytes.
__device__ __forceinline__ ColumnEntry load_entry(const ColumnEntry* from) {
  union {
    int4 words;
    ColumnEntry entry;
  } both;
  both.words = *reinterpret_cast<const int4*>(from);
  return both.entry;
}

/// kCount neighbouring values, aligned to their size: 16 bytes' worth, two or one.
template <int kCount, class T>
__device__ __forceinline__ void store_vector(T* to, const float (&from)[kCount], float bias) {
  using Vector =
      std::conditional_t<sizeof(T) * kCount == 16, uint4,
                         std::conditional_t<sizeof(T) * kCount == 8, uint2,
                                            std::conditional_t<sizeof(T) * kCount == 4, std::uint32_t, std::uint16_t>>>;
  union {
    T values[kCount];
    Vector vector;
  } packed;
#pragma unroll
  for (int i = 0; i < kCount; ++i) packed.values[i] = from_float<T>(from[i] + bias);
  *reinterpret_cast<Vector*>(to) = packed.vector;
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

/// A lane's place, position m of the warp and kVector - 1 after it, in every so-many-th staged column. All reads of a
/// few columns come before their stores, so that their latencies overlap.
template <int kVector, int kPitch, class T>
__device__ __forceinline__ void store_place(const CorrelationPlan& p, const CorrelationWork& work,
                                            const StagedColumns<T>& staged, int m, int first_column, int end_column,
                                            int step) {
  constexpr int kBatch = 4;
  const CorrelationPosition q = correlation_position(p, staged.first_m + m);
  const int h = (work.h + q.h) * p.out_stride_h, w = (work.w + q.w) * p.out_stride_w;
  if (work.n + q.n >= p.batch) return;
  T* to = staged.out + (work.n + q.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + w;
#pragma unroll 1
  for (int column = first_column; column < end_column; column += kBatch * step) {
    ColumnEntry entry[kBatch];
    float values[kBatch][kVector];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = min(column + i * step, end_column - 1);
      entry[i] = load_entry(staged.entries + at);
      const float* from = staged.staging + at * kPitch + m;
      if constexpr (kVector == 1) {
        values[i][0] = from[0];
      } else {
#pragma unroll
        for (int j = 0; j < kVector; j += 2) {
          const float2 pair = *reinterpret_cast<const float2*>(from + j);
          values[i][j] = pair.x;
          values[i][j + 1] = pair.y;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const bool valid = column + i * step < end_column && entry[i].offset != kNoColumn &&
                         static_cast<unsigned>(h + entry[i].h) < static_cast<unsigned>(p.out_h) &&
                         static_cast<unsigned>(w + entry[i].w) < static_cast<unsigned>(p.out_w);
      if (valid) store_vector<kVector>(to + entry[i].offset, values[i], entry[i].bias);
    }
  }
}

/// kVector neighbouring positions at a time; a lane's place is the same for every column.
template <int kVector, int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_vectors(const CorrelationPlan& p, const CorrelationWork& work,
                                              const StagedColumns<T>& staged) {
  constexpr int kLanesPerColumn = kWarpPositions / kVector;
  static_assert(kLanesPerColumn <= 32);
  store_place<kVector, kWarpPositions + 4>(p, work, staged, staged.lane % kLanesPerColumn * kVector,
                                           staged.lane / kLanesPerColumn, kStaged, 32 / kLanesPerColumn);
}

/// One value at a time, lanes along rows of out: 1 << log2_interleave columns are neighbouring pixels.
template <int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_values(const CorrelationPlan& p, const CorrelationWork& work,
                                             const StagedColumns<T>& staged, int log2_interleave) {
  const int mask = (1 << log2_interleave) - 1, group_size = kWarpPositions << log2_interleave;
  const int group_lanes = min(group_size, 32);
#pragma unroll 1
  for (int e = staged.lane % group_lanes; e < group_size; e += 32) {
    store_place<1, kWarpPositions + 4>(p, work, staged, e >> log2_interleave,
                                       ((staged.lane / group_lanes) << log2_interleave) + (e & mask), kStaged,
                                       (32 / group_lanes) << log2_interleave);
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

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

/// Entries in the order in which columns are staged.
template <class T>
__device__ __forceinline__ void fill_columns(const CorrelationPlan& p, const CorrelationWork& work, const T* bias,
                                             ColumnEntry* entries, int thread) {
  if (thread < p.tile_columns) {
    const CorrelationColumn column = correlation_column(p, work, correlation_staged_column(p.tile_columns, thread));
    ColumnEntry entry{kNoColumn, 0, 0, 0.0F};
    if (column.valid) {
      const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.n_channels + column.channel;
      entry.h = static_cast<std::int16_t>(column.phase_h);
      entry.w = static_cast<std::int16_t>(column.phase_w);
      entry.offset = (channel * p.out_h + entry.h) * p.out_w + entry.w;
      entry.bias = bias != nullptr ? to_float(bias[channel]) : 0.0F;
    }
    entries[thread] = entry;
  }
}

/// What a warp stores from, and where to. 1 << log2_interleave staged columns, half of them in either half of the
/// staged ones, are neighbouring pixels.
template <class T>
struct StagedColumns {
  T* out;
  const ColumnEntry* entries;
  const float* staging;
  std::int64_t sample;  // elements of one image of out
  int first_m, lane;
  int log2_interleave;
  bool activated;  // bias and all; -0 is added then, which changes no value, nor a zero's sign
};

/// The staged column that holds `phase` of the `group`-th pixel.
template <int kStaged>
__device__ __forceinline__ int staged_slot(int group, int phase, int log2_interleave) {
  if (log2_interleave == 0) return group;
  const int log2_half = log2_interleave - 1;
  return (phase >> log2_half) * (kStaged / 2) + (group << log2_half) + (phase & ((1 << log2_half) - 1));
}

/// kVector neighbouring pixels of a group from the staged columns: the first is `phase` of position m.
template <int kVector, int kStaged, int kPitch>
__device__ __forceinline__ void gather(const float* staging, int group, int m, int phase, int log2_interleave,
                                       float (&values)[kVector]) {
  if (kVector == 1 || log2_interleave > 1) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const int place = phase + i, mask = (1 << log2_interleave) - 1;
      values[i] =
          staging[staged_slot<kStaged>(group, place & mask, log2_interleave) * kPitch + m + (place >> log2_interleave)];
    }
  } else if (log2_interleave == 1) {
    const float* lower = staging + group * kPitch + m;
#pragma unroll
    for (int i = 0; i < kVector; i += 2) {
      values[i] = lower[i / 2];
      values[i + 1] = lower[kStaged / 2 * kPitch + i / 2];
    }
  } else {
#pragma unroll
    for (int i = 0; i + 1 < kVector; i += 2) {
      const float2 pair = *reinterpret_cast<const float2*>(staging + group * kPitch + m + i);
      values[i] = pair.x;
      values[i + 1] = pair.y;
    }
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

/// The staged sums with their bias, activated in place: one loop for all of store_staged's shapes, whose own code stays
/// small.
template <int kStaged, int kWarpPositions>
__device__ __forceinline__ void activate_staged(const Activate<float>& activate, const ColumnEntry* entries,
                                                float* staging, int lane) {
  struct alignas(16) Quad {
    float values[4];
  };
  constexpr int kLanesPerColumn = kWarpPositions / 4;
  static_assert(kLanesPerColumn <= 32 && kStaged % (32 / kLanesPerColumn) == 0);
#pragma unroll 1
  for (int column = lane / kLanesPerColumn; column < kStaged; column += 32 / kLanesPerColumn) {
    auto* const place = reinterpret_cast<Quad*>(staging + column * (kWarpPositions + 4)) + lane % kLanesPerColumn;
    Quad sums = *place;
#pragma unroll
    for (float& value : sums.values) value += entries[column].bias;
    activate(sums.values);
    *place = sums;
  }
}

/// kVector neighbouring pixels at a time, lanes along rows of out; a lane's place is the same for many columns. All
/// reads of a few columns come before their stores, so that their latencies overlap.
template <int kVector, int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_staged(const CorrelationPlan& p, const CorrelationWork& work,
                                             const StagedColumns<T>& staged) {
  constexpr int kBatch = kVector == 8 ? 2 : 4;
  const int log2_interleave = staged.log2_interleave, groups = kStaged >> log2_interleave;
  const int vectors = (kWarpPositions << log2_interleave) / kVector;  // of a group
  const int lanes = min(vectors, 32);
#pragma unroll 1
  for (int vector = staged.lane & (lanes - 1); vector < vectors; vector += 32) {
    const int m = vector * kVector >> log2_interleave, phase = vector * kVector & ((1 << log2_interleave) - 1);
    const CorrelationPosition q = correlation_position(p, staged.first_m + m);
    const int h = (work.h + q.h) * p.out_stride_h, w = (work.w + q.w) * p.out_stride_w;
    if (work.n + q.n >= p.batch) continue;
    T* to = staged.out + (work.n + q.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + w;
#pragma unroll 1
    for (int group = staged.lane / lanes; group < groups; group += kBatch * (32 / lanes)) {
      ColumnEntry entry[kBatch];
      float values[kBatch][kVector];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int at = min(group + i * (32 / lanes), groups - 1);
        entry[i] = load_entry(staged.entries + staged_slot<kStaged>(at, phase, log2_interleave));
        gather<kVector, kStaged, kWarpPositions + 4>(staged.staging, at, m, phase, log2_interleave, values[i]);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const bool valid = group + i * (32 / lanes) < groups && entry[i].offset != kNoColumn &&
                           h + entry[i].h < p.out_h && w + entry[i].w < p.out_w;
        if (valid) store_vector<kVector>(to + entry[i].offset, values[i], staged.activated ? -0.0F : entry[i].bias);
      }
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
  StagedColumns<T> staged{static_cast<T*>(operands.out),
                          entries,
                          staging,
                          static_cast<std::int64_t>(p.groups) * p.n_channels * p.out_h * p.out_w,
                          first_m,
                          lane,
                          max(correlation_log2_interleave(p.out_stride_w), 0),
                          !operands.activate.is_none()};
#pragma unroll
  for (int first = 0; first < kColumns; first += kStaged) {
    __syncwarp();
#pragma unroll
    for (int block = 0; block < kStaged / 8; ++block) {
#pragma unroll
      for (int j = 0; j < kMTiles; ++j) {
        float* to = staging + (8 * block + 2 * t) * kPitch + 16 * j + g;
        const float* from = sums[j] + correlation_staged_column(kColumns, first + 8 * block) / 2;
        to[0] = from[0];
        to[kPitch] = from[1];
        to[8] = from[2];
        to[kPitch + 8] = from[3];
      }
    }
    __syncwarp();
    staged.entries = entries + first;
    if (staged.activated) {
      activate_staged<kStaged, kWarpPositions>(operands.activate, staged.entries, staging, lane);
      __syncwarp();
    }
    if (operands.store_vector == kWide) {
      store_staged<kWide, kStaged, kWarpPositions>(p, work, staged);
    } else if (operands.store_vector == 2) {
      store_staged<2, kStaged, kWarpPositions>(p, work, staged);
    } else {
      store_staged<1, kStaged, kWarpPositions>(p, work, staged);
    }
  }
}

}  // namespace adjoint::cuda::correlation

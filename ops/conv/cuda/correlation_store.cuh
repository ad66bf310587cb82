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
template <bool kApart, class T>
__device__ __forceinline__ void fill_columns(const CorrelationPlan& p, const CorrelationWork& work, const T* bias,
                                             ColumnEntry* entries, int thread) {
  const int staged = correlation_staged_columns(p.tile_columns, kApart);
  for (int place = thread; place < p.tile_columns; place += 128) {
    const CorrelationColumn column =
        correlation_column(p, work, correlation_staged_column(p.tile_columns, staged, place));
    ColumnEntry entry{kNoColumn, 0, 0, 0.0F};
    if (column.valid) {
      const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.n_channels + column.channel;
      entry.h = static_cast<std::int16_t>(column.phase_h);
      entry.w = static_cast<std::int16_t>(column.phase_w);
      entry.offset = (channel * p.out_h + entry.h) * p.out_w + entry.w;
      entry.bias = bias != nullptr ? to_float(bias[channel]) : 0.0F;
    }
    entries[place] = entry;
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
  int first_column;  // of the staged columns, within the tile's half
};

/// The staged column that holds `phase` of the `group`-th pixel.
template <int kStaged>
__device__ __forceinline__ constexpr int staged_slot(int group, int phase, int log2_interleave) {
  if (log2_interleave == 0) return group;
  const int log2_half = log2_interleave - 1;
  return (phase >> log2_half) * (kStaged / 2) + (group << log2_half) + (phase & ((1 << log2_half) - 1));
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

/// The staged values, activated in place: one loop for all of store_staged's shapes, whose own code stays small.
template <int kStaged, int kWarpPositions>
__device__ __forceinline__ void activate_staged(const Activate<float>& activate, float* staging, int lane) {
  struct alignas(16) Quad {
    float values[4];
  };
  constexpr int kLanesPerColumn = kWarpPositions / 4;
  static_assert(kLanesPerColumn <= 32 && kStaged % (32 / kLanesPerColumn) == 0);
#pragma unroll 1
  for (int column = lane / kLanesPerColumn; column < kStaged; column += 32 / kLanesPerColumn) {
    auto* const place = reinterpret_cast<Quad*>(staging + column * (kWarpPositions + 4)) + lane % kLanesPerColumn;
    Quad quad = *place;
    activate(quad.values);
    *place = quad;
  }
}

/// One pixel at a time, for any stride and for tiles that hold several rows of phases: each column's place is looked
/// up. All reads of a few columns come before their stores, so that their latencies overlap.
template <int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_by_table(const CorrelationPlan& p, const CorrelationWork& work,
                                               const StagedColumns<T>& staged) {
  constexpr int kBatch = 4, kPitch = kWarpPositions + 4;
  const int log2_interleave = max(correlation_log2_interleave(p.out_stride_w), 0), groups = kStaged >> log2_interleave;
  const int pixels = kWarpPositions << log2_interleave;  // of a group
  const int lanes = min(pixels, 32);
#pragma unroll 1
  for (int pixel = staged.lane & (lanes - 1); pixel < pixels; pixel += 32) {
    const int m = pixel >> log2_interleave, phase = pixel & ((1 << log2_interleave) - 1);
    const CorrelationPosition q = correlation_position(p, staged.first_m + m);
    const int h = (work.h + q.h) * p.out_stride_h, w = (work.w + q.w) * p.out_stride_w;
    if (work.n + q.n >= p.batch) continue;
    T* to = staged.out + (work.n + q.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + w;
#pragma unroll 1
    for (int group = staged.lane / lanes; group < groups; group += kBatch * (32 / lanes)) {
      ColumnEntry entry[kBatch];
      float value[kBatch][1];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int at = min(group + i * (32 / lanes), groups - 1);
        const int slot = staged_slot<kStaged>(at, phase, log2_interleave);
        entry[i] = load_entry(staged.entries + slot);
        value[i][0] = staged.staging[slot * kPitch + m];
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const bool valid = group + i * (32 / lanes) < groups && entry[i].offset != kNoColumn &&
                           h + entry[i].h < p.out_h && w + entry[i].w < p.out_w;
        if (valid) store_vector<1>(to + entry[i].offset, value[i]);
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

/// kVector neighbouring pixels at a time, where a tile holds one row of phases: staged groups of columns are
/// neighbouring channels, so a lane's places are a constant apart in the staging rows and in out, and nothing is looked
/// up. Reads of a batch come before its stores, so that their latencies overlap.
template <int kVector, int kLog2Interleave, int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_rows(const CorrelationPlan& p, const CorrelationWork& work,
                                           const StagedColumns<T>& staged) {
  constexpr int kPitch = kWarpPositions + 4, kGroups = kStaged >> kLog2Interleave;
  constexpr int kVectors = (kWarpPositions << kLog2Interleave) / kVector;
  constexpr int kLanes = kVectors < 32 ? kVectors : 32, kStep = 32 / kLanes;  // lanes of a channel, channels at once
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
    const CorrelationPosition q = correlation_position(p, staged.first_m + m);
    const int h = (work.h + q.h) * p.out_stride_h + work.class_index;
    const int w = (work.w + q.w) * p.out_stride_w + phase;
    if (work.n + q.n >= p.batch || h >= p.out_h || w >= p.out_w) continue;
    int channels = p.n_channels - (first_channel + first);  // that are left
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

/// Whether store_staged looks every column's place up.
template <class T>
__device__ __forceinline__ bool stores_by_table(const CorrelationPlan& p, const CorrelationOperands& operands) {
  const bool wide = operands.store_vector == 16 / static_cast<int>(sizeof(T));
  return p.phases_per_class > 1 || !(p.out_stride_w <= 2 || (wide && (p.out_stride_w == 4 || p.out_stride_w == 8)));
}

/// Chooses among the ways to store; the choice is the launch's.
template <int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_staged(const CorrelationPlan& p, const CorrelationOperands& operands,
                                             const CorrelationWork& work, const StagedColumns<T>& staged) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  const bool wide = operands.store_vector == kWide, two = operands.store_vector == 2;
  if (stores_by_table<T>(p, operands)) {
    store_by_table<kStaged, kWarpPositions>(p, work, staged);
  } else if (p.out_stride_w == 1) {
    if (wide) {
      store_rows<kWide, 0, kStaged, kWarpPositions>(p, work, staged);
    } else if (two) {
      store_rows<2, 0, kStaged, kWarpPositions>(p, work, staged);
    } else {
      store_rows<1, 0, kStaged, kWarpPositions>(p, work, staged);
    }
  } else if (p.out_stride_w == 2) {
    if (wide) {
      store_rows<kWide, 1, kStaged, kWarpPositions>(p, work, staged);
    } else if (two) {
      store_rows<2, 1, kStaged, kWarpPositions>(p, work, staged);
    } else {
      store_rows<1, 1, kStaged, kWarpPositions>(p, work, staged);
    }
  } else if (p.out_stride_w == 4) {
    store_rows<4, 2, kStaged, kWarpPositions>(p, work, staged);
  } else {
    store_rows<4, 3, kStaged, kWarpPositions>(p, work, staged);
  }
}

/// A round's columns of the sums, with their bias: calls put(block, j, h, lower, upper) with the lane's two columns of
/// the block-th eight of the round's lower half and of its upper half, at the lane's position of the j-th sixteen and
/// the h-th eight of these. kRound is no later round. Rounds go through the columns of all m-tiles at once, or where
/// kApart of one after the other.
template <int kRound, bool kApart, int kColumns, int kMTiles, class Put>
__device__ __forceinline__ void for_round(int round, const float (&sums)[kMTiles][kColumns / 2],
                                          const ColumnEntry* entries, int lane, const Put& put) {
  constexpr int kTogether = kApart ? 1 : kMTiles;
  constexpr int kStaged = correlation_staged_columns(kColumns, kApart), kRounds = kColumns / kStaged;
  if constexpr (kRound + 1 < kRounds * (kMTiles / kTogether)) {
    if (round != kRound) return for_round<kRound + 1, kApart, kColumns, kMTiles>(round, sums, entries, lane, put);
  }
  const auto column = [](int place) { return correlation_staged_column(kColumns, kStaged, place); };
#pragma unroll
  for (int block = 0; block < kStaged / 16; ++block) {
    const int lower = 8 * block, upper = lower + kStaged / 2;  // of the round
    const ColumnEntry* const of_lane = entries + 2 * (lane % 4);
    const float lower_bias[] = {of_lane[lower].bias, of_lane[lower + 1].bias};
    const float upper_bias[] = {of_lane[upper].bias, of_lane[upper + 1].bias};
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const float* const m_tile = sums[kRound / kRounds * kTogether + j];
      const float* const from = m_tile + column(kRound % kRounds * kStaged + lower) / 2;
      const float* const upper_from = m_tile + column(kRound % kRounds * kStaged + upper) / 2;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float lower_values[] = {from[2 * h] + lower_bias[0], from[2 * h + 1] + lower_bias[1]};
        const float upper_values[] = {upper_from[2 * h] + upper_bias[0], upper_from[2 * h + 1] + upper_bias[1]};
        put(block, j, h, lower_values, upper_values);
      }
    }
  }
}

/// The same to the warp's staging rows.
template <bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void stage_columns(int round, const float (&sums)[kMTiles][kColumns / 2],
                                              const ColumnEntry* entries, float* staging, int lane) {
  constexpr int kStaged = correlation_staged_columns(kColumns, kApart);
  // 4 modulo 16: a fragment's eight-by-four pattern hits each bank once.
  constexpr int kPitch = correlation_staged_positions(kMTiles, kApart) + 4;
  float* const of_lane = staging + 2 * (lane % 4) * kPitch + lane / 4;
  const auto put = [&](int block, int j, int h, const float(&lower)[2], const float(&upper)[2]) {
    float* const to = of_lane + 8 * block * kPitch + 16 * j + 8 * h;
    to[0] = lower[0];
    to[kPitch] = lower[1];
    to[kStaged / 2 * kPitch] = upper[0];
    to[(kStaged / 2 + 1) * kPitch] = upper[1];
  };
  for_round<0, kApart, kColumns, kMTiles>(round, sums, entries, lane, put);
}

/// Stores a warp's sums, some columns a round through its own staging rows, so that lanes write along rows of out.
/// Only what names registers is written out for each round: the rest would not fit the instruction cache. kApart: the
/// warp's positions of an m-tile are 64 from those of the next, else they follow each other.
template <class T, bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void store_tile(const CorrelationPlan& p, const CorrelationOperands& operands,
                                           const CorrelationWork& work, const float (&sums)[kMTiles][kColumns / 2],
                                           const ColumnEntry* entries, float* staging, int first_m, int lane) {
  constexpr int kTogether = kApart ? 1 : kMTiles;
  constexpr int kStaged = correlation_staged_columns(kColumns, kApart), kRounds = kColumns / kStaged;
  StagedColumns<T> staged{nullptr, entries,
                          staging, static_cast<std::int64_t>(p.groups) * p.n_channels * p.out_h * p.out_w,
                          first_m, lane,
                          0};
#pragma unroll 1
  for (int round = 0; round < kRounds * (kMTiles / kTogether); ++round) {
    const int of_columns = kApart ? round % kRounds : round;
    if constexpr (kApart) staged.first_m = first_m + 64 * (round / kRounds);
    staged.entries = entries + of_columns * kStaged;
    staged.first_column = of_columns * (kStaged / 2);
    __syncwarp();
    stage_columns<kApart, kColumns, kMTiles>(round, sums, staged.entries, staging, lane);
    __syncwarp();
    if (operands.linear != nullptr) {
      staged.out = static_cast<T*>(operands.linear);
      store_staged<kStaged, 16 * kTogether>(p, operands, work, staged);
      __syncwarp();
    }
    if (!operands.activate.is_none()) {
      activate_staged<kStaged, 16 * kTogether>(operands.activate, staging, lane);
      __syncwarp();
    }
    staged.out = static_cast<T*>(operands.out);
    store_staged<kStaged, 16 * kTogether>(p, operands, work, staged);
  }
}

}  // namespace adjoint::cuda::correlation

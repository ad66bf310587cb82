// Stores a tile of the kernel for few results a position and several taps (kernel.cuh): sums go from registers to
// shared memory, [result][position], and from there along the results' rows.
#pragma once

#include <adjoint/ops/conv/line/packed/plan.h>
#include <adjoint/ops/conv/line/cuda/line.cuh>
#include <adjoint/ops/conv/line/packed/cuda/load.cuh>

#include <cstdint>

namespace adjoint::cuda::packed {

/// Stages a tile's sums and biases as [result of a product][position], kPitch from one result to the next.
template <int kPitch, int kSums>
__device__ __forceinline__ void stage_results(const PackedPlan& p, const float (&sums)[kSums], const float* biases,
                                              float* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int row = 16 * warp + lane / 4, rows = p.stack * p.group_results();
  const bool upper = row < rows, lower = row + 8 < rows;
  const float upper_bias = biases[row], lower_bias = biases[row + 8];
  auto* to = reinterpret_cast<float2*>(out + row * kPitch) + lane % 4;
  constexpr int kStep = 4 * kPitch;  // eight rows
#pragma unroll
  for (int i = 0; i < kSums; i += 4, to += 4) {
    if (upper) *to = make_float2(sums[i] + upper_bias, sums[i + 1] + upper_bias);
    if (lower) to[kStep] = make_float2(sums[i + 2] + lower_bias, sums[i + 3] + lower_bias);
  }
}

/// The same for pairs, which are added: a result's first sum at a position, and its second one position further. The
/// position after a thread's two is the next thread's, or, after four threads, the first's.
template <int kPitch, int kSums>
__device__ __forceinline__ void stage_pairs(const PackedPlan& p, const float (&sums)[kSums], const float* biases,
                                            float* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int m = 8 * warp + lane / 4, next = (lane & ~3) | ((lane + 1) & 3);
  const float bias = biases[16 * warp + lane / 4];
  auto* to = reinterpret_cast<float2*>(out + m * kPitch) + lane % 4;
#pragma unroll
  for (int i = 0; i < kSums; i += 4, to += 4) {
    const float given = lane % 4 == 0 && i + 4 < kSums ? sums[(i + 6) % kSums] : sums[i + 2];
    const float after = __shfl_sync(0xffffffff, given, next);
    if (m < p.group_results()) *to = make_float2(sums[i] + sums[i + 3] + bias, sums[i + 1] + after + bias);
  }
}

/// The value added to every result of a product: its bias once, with the first of its offsets.
template <class T>
__device__ __forceinline__ void fill_biases(const PackedPlan& p, const PackedTile& tile, const Operands<T>& operands,
                                            float* biases, int thread) {
  if (thread >= kPackedResults) return;
  const int m = p.row_result(thread);
  const bool has_bias = p.row_stacked(thread) == 0 && m < p.group_results();
  biases[thread] = has_bias ? line::bias_of(p, tile.group, operands, line_result(p, m).channel) : 0.0F;
}

/// The first `count` results of one position, or kBatch, their sums `step` apart; all are read before any is used.
/// `stacked`: distance to the same result's sum for the next offset.
template <int kBatch>
__device__ __forceinline__ void read_results(const PackedPlan& p, const float* out, int step, int stacked, int count,
                                             float (&values)[kBatch]) {
  const int stack = p.out_stack();
  const auto place = [&](int k) { return min(k, count - 1) * step; };
  float more[kBatch] = {};
#pragma unroll
  for (int k = 0; k < kBatch; ++k) values[k] = out[place(k)];
  if (stack > 1) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) more[k] = out[place(k) + stacked];
  }
#pragma unroll
  for (int k = 0; k < kBatch; ++k) values[k] += more[k];
#pragma unroll 1
  for (int t = 2; t < stack; ++t) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) values[k] += out[place(k) + t * stacked];
  }
}

/// The destination of a thread's results, one after the other.
template <bool kPlain, class T>
struct Destination {
  const Operands<T>& operands;
  T* result;
  std::int64_t at;      // the same place in elements of `linear`
  bool is_nan = false;  // true if a result was NaN

  __device__ __forceinline__ Destination(const Operands<T>& o, std::int64_t first)
      : operands(o), result(o.result + first), at(first) {}
  __device__ __forceinline__ void move(std::int64_t by) {
    if constexpr (kPlain) {
      result += by;
    } else {
      at += by;
    }
  }
  __device__ __forceinline__ void store(float value) {
    is_nan |= value != value;
    if constexpr (kPlain) {
      *result = from_float<T>(value);
    } else {
      line::store_result(operands, at, value);
    }
  }
};

/// Stores the channels of one position and phase, a plane apart: kBatch at a time while that many are left. kStep:
/// distance between the sums of two channels, or 0 to use `step`.
template <int kStep, int kBatch, class To>
__device__ __forceinline__ void store_channels(const PackedPlan& p, const float*& out, int step, int stacked, To& to,
                                               int& left) {
  const std::int64_t plane = static_cast<std::int64_t>(p.h.result) * p.w.result;
  if constexpr (kStep != 0) step = kStep;
#pragma unroll 1
  for (; left >= kBatch; left -= kBatch, out += kBatch * step) {
    float values[kBatch];
    read_results(p, out, step, stacked, kBatch, values);
#pragma unroll
    for (int k = 0; k < kBatch; ++k, to.move(plane)) to.store(values[k]);
  }
}

/// Stores few channels' results of one position and phase of the columns, `step` apart, with the phases of the rows in
/// each.
template <class To>
__device__ __forceinline__ void store_phases(const PackedPlan& p, const float* out, int step, int stacked,
                                             const line::ResultPlace& place, To& to) {
  constexpr int kBatch = 4;
  const std::int64_t next_channel = (static_cast<std::int64_t>(p.h.result) - p.h.phases) * p.w.result;
  int phase_h = 0;
#pragma unroll 1
  for (int left = p.channels * p.h.phases; left > 0; left -= kBatch, out += kBatch * step) {
    float values[kBatch];
    read_results(p, out, step, stacked, left, values);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (k >= left) break;
      if (line::has_row(p, place, phase_h)) to.store(values[k]);
      to.move(p.w.result);
      if (++phase_h == p.h.phases) {
        phase_h = 0;
        to.move(next_channel);
      }
    }
  }
}

/// Stores the channels of two neighbouring positions without phases, as pairs, kBatch at a time while that many are
/// left; returns true if a result was NaN.
template <int kPitch, int kBatch, class T>
__device__ __forceinline__ bool store_pairs(const PackedPlan& p, const float*& out, T*& result, int& left) {
  struct alignas(2 * sizeof(T)) Pair {
    T values[2];
  };
  const std::int64_t plane = static_cast<std::int64_t>(p.h.result) * p.w.result;
  bool is_nan = false;
#pragma unroll 1
  for (; left >= kBatch; left -= kBatch, out += kBatch * kPitch) {
    float2 values[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) values[k] = *reinterpret_cast<const float2*>(out + k * kPitch);
#pragma unroll
    for (int k = 0; k < kBatch; ++k, result += plane) {
      is_nan |= values[k].x != values[k].x || values[k].y != values[k].y;
      *reinterpret_cast<Pair*>(result) = {from_float<T>(values[k].x), from_float<T>(values[k].y)};
    }
  }
  return is_nan;
}

/// Computes the results of one position and phase of the columns again, by their definition. A product of zero, for a
/// place outside the source or a missing tap, is NaN if the other factor is infinite, so this is done if a result was
/// NaN.
template <class T>
__device__ __forceinline__ void store_defined(const PackedPlan& p, std::int64_t group, const Operands<T>& operands,
                                              const LinePlace& grid, const line::ResultPlace& place, int phase_w) {
#pragma unroll 1
  for (int k = 0; k < p.channels * p.h.phases; ++k) {
    const LineResult result = {k / p.h.phases, k % p.h.phases, phase_w};
    if (!line::has_row(p, place, result.phase_h)) continue;
    const float sum = line::defined_sum(p, group, operands, grid, result);
    const std::int64_t row = static_cast<std::int64_t>(result.channel) * p.h.result + result.phase_h;
    line::store_result(operands, place.at + row * p.w.result + phase_w,
                       sum + line::bias_of(p, group, operands, result.channel));
  }
}

/// True if two neighbouring positions' results are adjacent, so that one store reaches both, and their sums are, too.
template <class T>
__device__ __forceinline__ bool stores_pairs(const PackedPlan& p, const Operands<T>& operands) {
  return p.h.phases * p.w.phases == 1 && p.out_stack() == 1 && (p.w.result | p.w.shift) % 2 == 0 &&
         reinterpret_cast<std::uintptr_t>(operands.result) % (2 * sizeof(T)) == 0;
}

/// Stores the tile's results if stores_pairs(), by its team.
template <int kPitch, class T>
__device__ __forceinline__ void store_paired_results(const PackedPlan& p, const PackedTile& tile,
                                                     const Operands<T>& operands, const float* out, int thread) {
#pragma unroll 1
  for (int position = 2 * thread; position < p.tile_positions; position += 2 * kPackedTeam) {
    LinePlace grid = packed_place(p, tile, position);
    line::ResultPlace place = line::results_of(p, tile.group, grid);
    // Rows of results, and of a tile's positions, are even: both positions of a pair are valid, or neither.
    if (!is_position(p, tile, grid) || !line::has_column(p, place, 0) || !line::has_row(p, place, 0)) continue;
    const float* from = out + position;
    T* result = operands.result + place.at;
    int left = p.channels;
    bool is_nan = store_pairs<kPitch, 16>(p, from, result, left);
    is_nan |= store_pairs<kPitch, 4>(p, from, result, left);
    is_nan |= store_pairs<kPitch, 1>(p, from, result, left);
    if (!is_nan) continue;
    store_defined(p, tile.group, operands, grid, place, 0);
    ++grid.column;
    ++place.at;
    store_defined(p, tile.group, operands, grid, place, 0);
  }
}

/// Stores the tile's results, by its team, along the results' rows.
template <bool kPlain, int kPitch, class T>
__device__ __forceinline__ void store_results(const PackedPlan& p, const PackedTile& tile, const Operands<T>& operands,
                                              const float* out, int thread) {
  const int stacked = p.group_results() * kPitch + p.stack_step;
#pragma unroll 1
  for (int i = thread; i < p.tile_positions * p.w.phases; i += kPackedTeam) {
    int phase_w = i;
    const int position = p.phase_divider.split(phase_w);
    const LinePlace grid = packed_place(p, tile, position);
    const line::ResultPlace place = line::results_of(p, tile.group, grid);
    if (!is_position(p, tile, grid) || !line::has_column(p, place, phase_w)) continue;
    const float* from = out + phase_w * kPitch + position;
    Destination<kPlain, T> to(operands, place.at + phase_w);
    constexpr int kFewChannels = 3;
    if (p.h.phases * p.w.phases == 1) {
      int left = line::has_row(p, place, 0) ? p.channels : 0;
      store_channels<kPitch, 16>(p, from, kPitch, stacked, to, left);
      store_channels<kPitch, 4>(p, from, kPitch, stacked, to, left);
      store_channels<kPitch, 1>(p, from, kPitch, stacked, to, left);
    } else if (p.channels <= kFewChannels) {
      store_phases(p, from, p.w.phases * kPitch, stacked, place, to);
    } else {
      const int step = p.h.phases * p.w.phases * kPitch;
#pragma unroll 1
      for (int phase_h = 0; phase_h < p.h.phases; ++phase_h, from += p.w.phases * kPitch, to.move(p.w.result)) {
        if (!line::has_row(p, place, phase_h)) continue;
        const float* out_of_phase = from;
        Destination<kPlain, T> to_phase = to;
        int left = p.channels;
        store_channels<0, 8>(p, out_of_phase, step, stacked, to_phase, left);
        store_channels<0, 1>(p, out_of_phase, step, stacked, to_phase, left);
        to.is_nan |= to_phase.is_nan;
      }
    }
    if (to.is_nan) store_defined(p, tile.group, operands, grid, place, phase_w);
  }
}

}  // namespace adjoint::cuda::packed

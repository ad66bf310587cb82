// Writes the sums of the tensor-core kernel of conv and conv_transpose: through a few staged columns per warp, so that
// lanes write along rows of the output.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/correlation/cuda/store/staged.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// Calls store.operator()<log2 of a row's phases>() for a power of two up to eight.
template <class Store>
__device__ __forceinline__ void by_phases(int phases, const Store& store) {
  switch (phases) {
    case 1: return store.template operator()<0>();
    case 2: return store.template operator()<1>();
    case 4: return store.template operator()<2>();
    default: return store.template operator()<3>();
  }
}

/// The bias of a tile's columns.
template <class T>
__device__ __forceinline__ void fill_biases(const CorrelationPlan& p, const CorrelationWork& work, const T* bias,
                                            float* biases, int thread) {
  for (int place = thread; place < p.tile_columns; place += 128) {
    const CorrelationColumn column = correlation_column(p, work, place);
    biases[place] = bias != nullptr && column.valid ? to_float(bias[work.group * p.n_channels + column.channel]) : 0.0F;
  }
}

/// Activates the staged values in place: one loop for all of store_staged's shapes, so that their code stays small.
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

/// A round's columns of the sums, with their bias: calls put(block, j, h, lower, upper) with the lane's two columns of
/// the block-th eight of the round's lower half and of its upper half, at the lane's position of the j-th sixteen and
/// the h-th eight of these. The round's biases begin at `biases`; kRound is the round. Rounds cover the columns of all
/// m-tiles together or, with kApart, of one after the other.
template <int kRound, bool kApart, int kColumns, int kMTiles, class Put>
__device__ __forceinline__ void for_round(int round, const float (&sums)[kMTiles][kColumns / 2], const float* biases,
                                          int lane, const Put& put) {
  constexpr int kTogether = kApart ? 1 : kMTiles;
  constexpr int kStaged = correlation_staged_columns(kColumns, kApart), kRounds = kColumns / kStaged;
  if constexpr (kRound + 1 < kRounds * (kMTiles / kTogether)) {
    if (round != kRound) return for_round<kRound + 1, kApart, kColumns, kMTiles>(round, sums, biases, lane, put);
  }
#pragma unroll
  for (int block = 0; block < kStaged / 16; ++block) {
    const int lower = 8 * block, upper = lower + kColumns / 2;  // from the round's first column
    const float* const of_lane = biases + 2 * (lane % 4);
    const float lower_bias[] = {of_lane[lower], of_lane[lower + 1]};
    const float upper_bias[] = {of_lane[upper], of_lane[upper + 1]};
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const float* const m_tile = sums[kRound / kRounds * kTogether + j] + kRound % kRounds * (kStaged / 4);
      const float* const from = m_tile + lower / 2;
      const float* const upper_from = m_tile + upper / 2;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float lower_values[] = {from[2 * h] + lower_bias[0], from[2 * h + 1] + lower_bias[1]};
        const float upper_values[] = {upper_from[2 * h] + upper_bias[0], upper_from[2 * h + 1] + upper_bias[1]};
        put(block, j, h, lower_values, upper_values);
      }
    }
  }
}

/// The same, to the warp's staging rows.
template <bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void stage_columns(int round, const float (&sums)[kMTiles][kColumns / 2],
                                              const float* biases, float* staging, int lane) {
  constexpr int kStaged = correlation_staged_columns(kColumns, kApart);
  // 4 modulo 16: a fragment's eight-by-four pattern uses each bank once.
  constexpr int kPitch = correlation_staged_positions(kMTiles, kApart) + 4;
  float* const of_lane = staging + 2 * (lane % 4) * kPitch + lane / 4;
  const auto put = [&](int block, int j, int h, const float(&lower)[2], const float(&upper)[2]) {
    float* const to = of_lane + 8 * block * kPitch + 16 * j + 8 * h;
    to[0] = lower[0];
    to[kPitch] = lower[1];
    to[kStaged / 2 * kPitch] = upper[0];
    to[(kStaged / 2 + 1) * kPitch] = upper[1];
  };
  for_round<0, kApart, kColumns, kMTiles>(round, sums, biases, lane, put);
}

/// Stores a warp's sums, some columns per round through its own staging rows, so that lanes write along rows of out.
/// Only code that names registers is unrolled for each round, because the rest would not fit the instruction cache.
/// kApart: the warp's positions of an m-tile are 64 from those of the next, else they follow each other.
template <class T, bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void store_tile(const CorrelationPlan& p, const CorrelationOperands& operands,
                                           const CorrelationWork& work, const float (&sums)[kMTiles][kColumns / 2],
                                           const float* biases, float* staging, int first_m, int lane) {
  constexpr int kTogether = kApart ? 1 : kMTiles;
  constexpr int kStaged = correlation_staged_columns(kColumns, kApart), kRounds = kColumns / kStaged;
  StagedColumns<T> staged{nullptr, staging, static_cast<std::int64_t>(p.groups) * p.n_channels * p.out_h * p.out_w,
                          first_m, lane,    0};
#pragma unroll 1
  for (int round = 0; round < kRounds * (kMTiles / kTogether); ++round) {
    const int of_columns = kApart ? round % kRounds : round;
    if constexpr (kApart) staged.first_m = first_m + 64 * (round / kRounds);
    staged.first_column = of_columns * (kStaged / 2);
    __syncwarp();
    stage_columns<kApart, kColumns, kMTiles>(round, sums, biases + of_columns * (kStaged / 2), staging, lane);
    __syncwarp();
    if (operands.linear != nullptr) {
      staged.out = static_cast<T*>(operands.linear);
      store_staged<kStaged, 16 * kTogether, kApart>(p, operands, work, staged);
      __syncwarp();
    }
    if (!operands.activate.is_none()) {
      activate_staged<kStaged, 16 * kTogether>(operands.activate, staging, lane);
      __syncwarp();
    }
    staged.out = static_cast<T*>(operands.out);
    store_staged<kStaged, 16 * kTogether, kApart>(p, operands, work, staged);
  }
}

}  // namespace adjoint::cuda::correlation

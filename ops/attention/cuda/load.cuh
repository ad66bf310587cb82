// Fused attention's copies to shared memory, which one thread starts.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/attention/cuda/problem.cuh>

#include <cstdint>

namespace adjoint::cuda::attention {

/// Copies kRows rows, line by line, to [line][row].
template <class F, int kRows>
__device__ __forceinline__ void copy_rows(const Operand& from, int pair, int row, std::uint32_t to,
                                          std::uint32_t barrier) {
  const int head = pair % from.heads * from.head_step, batch = pair / from.heads * from.batch_step;
#pragma unroll 1
  for (int line = 0; line < F::kLines; ++line) {
    const int at[kTensorMapAxes] = {line * (kLineBytes / F::kElementBytes), row, head, batch, 0};
    ptx::tensor_copy(to + line * kRows * kLineBytes, &from.map, at, barrier);
  }
}

template <class F>
__device__ __forceinline__ void copy_kept(const Problem& p, const Place& place, const Shared<F>& shared,
                                          std::uint32_t parity) {
  ptx::mbarrier_wait(shared.kept_empty(), parity ^ 1);
  ptx::mbarrier_arrive_expect_bytes(shared.kept_full(), F::kKeptBytes);
  for (int team = 0; team < F::kTeams; ++team) {
    const int row = place.row + team * kTeamRows;
    copy_rows<F, kTeamRows>(p.kept_x, place.pair, row, shared.kept(0, team), shared.kept_full());
    if (F::kKeepsY) {
      copy_rows<F, kTeamRows>(p.kept_y, place.pair, row, shared.kept(1, team), shared.kept_full());
    }
  }
}

/// The statistics of a stage come with its X.
template <class F>
__device__ __forceinline__ void copy_statistics(const Problem& p, int pair, int row, int stage, const Shared<F>& shared,
                                                std::uint32_t barrier) {
  const std::int64_t at = std::int64_t{pair} * p.padded_queries + row;
  const float* const from[kStatistics] = {p.logs, p.deltas, p.maxima};
#pragma unroll
  for (int i = 0; i < kStatistics; ++i) {
    ptx::bulk_copy(shared.statistic(stage, i), from[i] + at, F::kColumns * 4, barrier);
  }
}

/// `step`: of the block; counts the tiles.
template <class F>
__device__ __forceinline__ void copy_moving(const Problem& p, const Place& place, const Shared<F>& shared, int& step) {
  const Walk walk = walk_of<F>(p, place);
#pragma unroll 1
  for (int i = 0; i < walk.heads; ++i) {
    const int pair = F::kByKey ? place.pair * p.group + i : place.pair / p.group;
#pragma unroll 1
    for (int tile = 0; tile < walk.tiles; ++tile, ++step) {
      const Stage<F> stage(step);
      const int row = (walk.first_tile + tile) * F::kColumns;
      ptx::mbarrier_wait(shared.empty(stage.x()), stage.parity ^ 1);
      ptx::mbarrier_arrive_expect_bytes(shared.full(stage.x()), F::kTileBytes + F::kStatisticBytes);
      copy_rows<F, F::kColumns>(p.moving_x, pair, row, shared.tile(stage.x()), shared.full(stage.x()));
      if (F::kByKey) copy_statistics(p, pair, row, stage.index, shared, shared.full(stage.x()));
      ptx::mbarrier_wait(shared.empty(stage.y()), stage.parity ^ 1);
      ptx::mbarrier_arrive_expect_bytes(shared.full(stage.y()), F::kTileBytes);
      copy_rows<F, F::kColumns>(p.moving_y, pair, row, shared.tile(stage.y()), shared.full(stage.y()));
    }
  }
}

}  // namespace adjoint::cuda::attention

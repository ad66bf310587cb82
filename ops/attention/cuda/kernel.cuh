// Fused attention (Dao: "FlashAttention-2", 2023; Shah et al.: "FlashAttention-3", 2024): form.h describes the division
// of a block's work. Memory is linear in the sequence, because scores never leave registers. One thread copies tiles,
// and each multiplying warpgroup has 64 rows of scores. A warpgroup's softmax overlaps its own second product and those
// of the other warpgroup.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/base/cuda/register_split.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/ptx_numbers.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/attention/cuda/load.cuh>
#include <adjoint/ops/attention/cuda/problem.cuh>
#include <adjoint/ops/attention/cuda/products.cuh>
#include <adjoint/ops/attention/cuda/scores.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cmath>
#include <cstdint>

namespace adjoint::cuda::attention {

/// A multiplying thread: its place, and the barriers that it waits for and arrives at.
template <class F>
struct Worker {
  using Element = typename ArithmeticTraits<F::kArithmetic>::Element;

  const Problem& p;
  Shared<F> shared;
  Place place;
  Walk walk;
  int team, row;   // row: the warp's first, of its head
  int first_step;  // of the block's

  /// A function, because a variable would occupy a register.
  __device__ __forceinline__ int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  __device__ __forceinline__ Stage<F> stage_of(int step) const { return Stage<F>(first_step + step); }

  __device__ __forceinline__ Scores<F> scores_of(int pair, int column) const { return {p, pair, row, column}; }
  __device__ __forceinline__ void release(int slot) const {
    __syncwarp();
    if (lane() == 0) ptx::mbarrier_arrive(shared.empty(slot));
  }
  /// The kept rows have been read.
  __device__ __forceinline__ void release_kept() const {
    __syncwarp();
    if (lane() == 0) ptx::mbarrier_arrive(shared.kept_empty());
  }
  __device__ __forceinline__ void wait(int slot, std::uint32_t parity) const {
    ptx::mbarrier_wait(shared.full(slot), parity);
  }
  /// The first row of the statistics of this head of queries.
  __device__ __forceinline__ std::int64_t statistics_at() const { return std::int64_t{place.pair} * p.padded_queries; }
  /// The warp's first row in a contiguous result.
  __device__ __forceinline__ Element* result(void* to, int rows, int extent) const {
    return static_cast<Element*>(to) + (std::int64_t{place.pair} * rows + row) * extent;
  }
};

/// The running maximum and sum of a thread's two rows. The sum is of the thread's own columns.
template <class F>
struct Softmax {
  float maxima[2] = {-INFINITY, -INFINITY}, sums[2] = {0.0F, 0.0F}, factors[2];

  /// Turns scores into weights that are still to be divided by the sums. `factors`: those of earlier results.
  __device__ __forceinline__ void operator()(const Problem& p, const Scores<F>& place,
                                             const typename Scores<F>::Kept& kept, float (&scores)[F::kColumns / 2]) {
    constexpr int kCount = F::kColumns / 2;
    if (place.is_cut() || p.mask.data != nullptr) place.cut(scores);
    float shifts[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = maxima[r];
#pragma unroll
      for (int i = 2 * r; i < kCount; i += 4) most = fmaxf(most, fmaxf(scores[i], scores[i + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
      const float finite = most == -INFINITY ? 0.0F : most;
      factors[r] = ptx::exp2_approximate((maxima[r] - finite) * p.exponent);
      maxima[r] = most;
      shifts[r] = finite;
      sums[r] *= factors[r];
    }
    // Added masks may be so large that a product with the exponent overflows: there the maximum is subtracted first.
    if (p.mask.added) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) scores[i] -= shifts[i % 4 / 2];
      shifts[0] = shifts[1] = 0.0F;
    }
    shifts[0] *= p.exponent;
    shifts[1] *= p.exponent;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      scores[i] = ptx::exp2_approximate(fmaf(scores[i], p.exponent, -shifts[i % 4 / 2]));
      sums[i % 4 / 2] += scores[i];
    }
    if (p.dropout.active) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) scores[i] = kept[i] ? scores[i] * p.dropout.factor : 0.0F;
    }
  }

  /// The sums of all columns, with the same bits in the four threads of a row.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (float& sum : sums) {
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
    }
  }
};

/// Tile i's second product runs beside the first product and the softmax of tile i + 1.
template <class F>
__device__ __forceinline__ void forward(const Worker<F>& w) {
  const int steps = w.walk.steps();
  const std::uint32_t kept = w.shared.kept(0, w.team);
  float scores[F::kColumns / 2];
  Softmax<F> softmax;
  Weights<F> weights;
  Sums<F> sums;
  sums.clear();
  typename Scores<F>::Kept weights_kept{};
  const auto start_scores = [&](int step) {
    // Drawn while no scores occupy registers.
    if (w.p.dropout.active) weights_kept = w.scores_of(w.place.pair, step * F::kColumns).kept();
    const Stage<F> stage = w.stage_of(step);
    w.wait(stage.x(), stage.parity);
    wgmma::pin(scores);
    wgmma::fence();
    multiply_scores<F>(scores, kept, w.shared.tile(stage.x()));
    wgmma::commit();
  };
  const auto start_sums = [&](int step) {
    const Stage<F> stage = w.stage_of(step);
    w.wait(stage.y(), stage.parity);
    wgmma::fence();
    sums.add(weights, w.shared.tile(stage.y()), w.lane());
    wgmma::commit();
  };
  const auto weigh = [&](int step) {
    wgmma::pin(scores);
    w.release(w.stage_of(step).x());
    softmax(w.p, w.scores_of(w.place.pair, step * F::kColumns), weights_kept, scores);
  };
  const auto finish_sums = [&](int step) {
    wgmma::wait<0>();
    wgmma::pin(sums.values);
    weights.pin();
    w.release(w.stage_of(step).y());
  };

  start_scores(0);
  wgmma::wait<0>();
  weigh(0);
  weights.set(scores);
  weights.pin();
  wgmma::pin(sums.values);
#pragma unroll 1
  for (int step = 1; step < steps; ++step) {
    start_scores(step);
    start_sums(step - 1);
    wgmma::wait<1>();
    weigh(step);
    finish_sums(step - 1);
#pragma unroll
    for (int i = 0; i < F::kHead / 2; ++i) sums.values[i] *= softmax.factors[i % 4 / 2];
    weights.set(scores);
    weights.pin();
    wgmma::pin(sums.values);
  }
  w.release_kept();
  start_sums(steps - 1);
  finish_sums(steps - 1);

  softmax.finish();
  float factors[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    factors[r] = softmax.sums[r] == 0.0F ? 0.0F : 1.0F / softmax.sums[r];  // 0 for a query that sees no key
    const int query = w.row + w.lane() / 4 + 8 * r;
    if (w.p.logs == nullptr || w.lane() % 4 != 0 || query >= w.p.padded_queries) continue;
    const bool sees = query < w.p.queries && softmax.sums[r] != 0.0F;
    const std::int64_t at = w.statistics_at() + query;
    const bool added = w.p.mask.added;
    w.p.logs[at] = sees ? log2f(softmax.sums[r]) + (added ? 0.0F : softmax.maxima[r] * w.p.exponent) : INFINITY;
    w.p.maxima[at] = added && sees ? softmax.maxima[r] : 0.0F;
  }
  // Weights of 0 times values that are not finite are NaN.
#pragma unroll
  for (int i = 0; i < F::kHead / 2; ++i) {
    if (factors[i % 4 / 2] == 0.0F) sums.values[i] = 0.0F;
  }
  sums.store(w.result(w.p.result_x, w.p.queries, w.p.result_x_extent), w.p.queries - w.row, w.p.result_x_extent,
             factors, w.lane());
}

/// A thread's statistics: of its two rows, or of the columns of a stage.
template <class F>
struct Statistics {
  float rows[kStatistics][2] = {};
  const Worker<F>& w;
  int stage = 0;

  __device__ __forceinline__ explicit Statistics(const Worker<F>& worker) : w(worker) {
    if constexpr (!F::kByKey) {
      const float* const from[kStatistics] = {w.p.logs, w.p.deltas, w.p.maxima};
#pragma unroll
      for (int i = 0; i < kStatistics; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int query = w.row + w.lane() / 4 + 8 * r;
          if (query < w.p.padded_queries) rows[i][r] = from[i][w.statistics_at() + query];
        }
      }
    }
  }
  /// Calls use(i, statistic of score i).
  template <class Use>
  __device__ __forceinline__ void each(int which, const Use& use) const {
#pragma unroll
    for (int j = 0; j < F::kColumns / 8; ++j) {
      float pair[2];
      if constexpr (F::kByKey) {
        std::uint32_t bits[2];
        ptx::load_shared_pair(bits, w.shared.statistic(stage, which) + (8 * j + 2 * (w.lane() % 4)) * 4);
        pair[0] = __uint_as_float(bits[0]);
        pair[1] = __uint_as_float(bits[1]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) use(4 * j + e, F::kByKey ? pair[e % 2] : rows[which][e / 2]);
    }
  }
};

/// The parts of the backward pass. Weights are computed again from the scores and the rows' statistics.
template <class F>
__device__ __forceinline__ void backward(const Worker<F>& w) {
  constexpr int kCount = F::kColumns / 2;
  // A ring of one tile must be free before the next tile comes, and sums of two products leave no registers for
  // operands of products that are still in flight.
  constexpr bool kFinishesEachTile = F::kStages == 1 || (F::kWithX && F::kWithY && F::kHead > 64);
  const Problem& p = w.p;
  const int steps = w.walk.steps();
  float scores[kCount], slopes[kCount];
  Weights<F> weights, scaled_slopes;
  Sums<F> of_x, of_y;
  Statistics<F> statistics(w);
  if constexpr (F::kWithX) of_x.clear();
  if constexpr (F::kWithY) of_y.clear();
  const auto pin_sums = [&] {
    if constexpr (F::kWithX) wgmma::pin(of_x.values);
    if constexpr (F::kWithY) wgmma::pin(of_y.values);
  };
  const auto release = [&](int step) {
    if constexpr (F::kWithX) scaled_slopes.pin();
    if constexpr (F::kWithY) weights.pin();
    const Stage<F> stage = w.stage_of(step);
    w.release(stage.x());
    w.release(stage.y());
  };

  pin_sums();
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const int of_head = F::kByKey ? step / w.walk.tiles : 0, tile = step - of_head * w.walk.tiles;
    const int pair = F::kByKey ? w.place.pair * p.group + of_head : w.place.pair;
    const Scores<F> place = w.scores_of(pair, (w.walk.first_tile + tile) * F::kColumns);
    typename Scores<F>::Kept kept{};
    if (p.dropout.active) kept = place.kept();  // while no scores occupy registers
    const Stage<F> stage = w.stage_of(step);
    w.wait(stage.x(), stage.parity);
    wgmma::pin(scores);
    wgmma::fence();
    multiply_scores<F>(scores, w.shared.kept(0, w.team), w.shared.tile(stage.x()));
    wgmma::commit();
    w.wait(stage.y(), stage.parity);
    if constexpr (F::kKeepsY) {
      wgmma::pin(slopes);
      wgmma::fence();
      multiply_scores<F>(slopes, w.shared.kept(1, w.team), w.shared.tile(stage.y()));
      wgmma::commit();
      wgmma::wait<1>();
    } else {
      wgmma::wait<0>();
    }
    wgmma::pin(scores);
    if (!kFinishesEachTile && step > 0) release(step - 1);

    place.cut(scores);
    statistics.stage = stage.index;
    if (p.mask.added) statistics.each(2, [&](int i, float most) { scores[i] -= most; });
    statistics.each(0, [&](int i, float log) { scores[i] = ptx::exp2_approximate(fmaf(scores[i], p.exponent, -log)); });
    if constexpr (F::kWithY) {
      if (p.dropout.active) {
        float left[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i) left[i] = kept[i] ? scores[i] * p.dropout.factor : 0.0F;
        weights.set(left);
      } else {
        weights.set(scores);
      }
      // TF32's product is finished immediately, which frees the weights' registers.
      if constexpr (!F::kHalf) of_y.add(weights, w.shared.tile(stage.y()), w.lane());
    }
    if constexpr (F::kWithX) {
      wgmma::wait<0>();
      wgmma::pin(slopes);
      if (p.dropout.active) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) slopes[i] = kept[i] ? slopes[i] * p.dropout.factor : 0.0F;
      }
      statistics.each(1, [&](int i, float delta) { scores[i] *= slopes[i] - delta; });
      scaled_slopes.set(scores);
      scaled_slopes.pin();
    }
    if constexpr (F::kWithY) weights.pin();
    wgmma::fence();
    if constexpr (F::kWithY && F::kHalf) of_y.add(weights, w.shared.tile(stage.y()), w.lane());
    if constexpr (F::kWithX) of_x.add(scaled_slopes, w.shared.tile(stage.x()), w.lane());
    wgmma::commit();
    if constexpr (kFinishesEachTile) {
      wgmma::wait<0>();
      release(step);
    }
  }
  wgmma::wait<0>();
  pin_sums();
  w.release_kept();
  if (!kFinishesEachTile && steps > 0) release(steps - 1);

  const int rows = F::kByKey ? p.keys : p.queries;
  if constexpr (F::kWithX) {
    of_x.store(w.result(p.result_x, rows, p.result_x_extent), rows - w.row, p.result_x_extent, {p.scale, p.scale},
               w.lane());
  }
  if constexpr (F::kWithY) {
    of_y.store(w.result(p.result_y, rows, p.result_y_extent), rows - w.row, p.result_y_extent, {1.0F, 1.0F}, w.lane());
  }
}

template <class F>
__global__ void __launch_bounds__(F::kThreads, 1) attention_kernel(const __grid_constant__ Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which is never launched
  const Shared<F> shared;
  if (threadIdx.x == 0) {
    constexpr int kWarps = F::kTeams * kTeam / 32;  // each reports that it has read a tile
    ptx::mbarrier_init(shared.kept_full(), 1);
    ptx::mbarrier_init(shared.kept_empty(), kWarps);
    for (int slot = 0; slot < 2 * F::kStages; ++slot) {
      ptx::mbarrier_init(shared.full(slot), 1);
      ptx::mbarrier_init(shared.empty(slot), kWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  constexpr int kLoaderRegisters = 24;
  // A block stays on its multiprocessor and computes every gridDim'th place; copies run ahead to the next.
  const auto each_place = [&p](const auto& compute) {
    std::uint32_t parity = 0;
    int step = 0;
#pragma unroll 1
    for (int index = static_cast<int>(blockIdx.x); index < p.pairs * p.tiles; index += static_cast<int>(gridDim.x)) {
      compute(place_of<F>(p, index), parity, step);
      parity ^= 1;
    }
  };
  const int warp = ptx::uniform(static_cast<int>(threadIdx.x) / 32), lane = static_cast<int>(threadIdx.x) % 32;
  if (warp >= F::kTeams * kTeam / 32) {
    if constexpr (F::kTeams > 1) ptx::lower_register_limit<kLoaderRegisters>();
    if (warp == F::kTeams * kTeam / 32 && lane == 0) {
      each_place([&](const Place& place, std::uint32_t parity, int& step) {
        copy_kept(p, place, shared, parity);
        copy_moving(p, place, shared, step);
      });
    }
  } else {
    if constexpr (F::kTeams > 1) {
      ptx::raise_register_limit<multiplier_registers(F::kThreads, kTeam, kLoaderRegisters)>();
    }
    each_place([&](const Place& place, std::uint32_t parity, int& step) {
      const Worker<F> worker{p, shared, place, walk_of<F>(p, place), warp / 4, place.row + warp * 16, step};
      ptx::mbarrier_wait(shared.kept_full(), parity);
      if constexpr (F::kForward) {
        forward(worker);
      } else {
        backward(worker);
      }
      step += worker.walk.steps();
    });
  }
#endif
}

/// deltas of kDeltaRows rows a block: the sums of dO times O, and 0 for padding. Sixteen threads have a row.
inline constexpr int kDeltaThreads = 256, kDeltaLanes = 16, kDeltaRows = kDeltaThreads / kDeltaLanes;

template <class T>
struct Deltas {
  const T *slopes, *results;
  std::int64_t strides[3];  // of dO's batches, heads and rows; O is contiguous
  std::int32_t heads, queries, padded_queries, extent;
  float* out;
};

template <class T>
__global__ void __launch_bounds__(kDeltaThreads) attention_deltas(const __grid_constant__ Deltas<T> d) {
  constexpr int kPack = static_cast<int>(16 / sizeof(T));
  const int blocks = d.padded_queries / kDeltaRows, pair = static_cast<int>(blockIdx.x) / blocks;
  const int query = (static_cast<int>(blockIdx.x) - pair * blocks) * kDeltaRows +
                    static_cast<int>(threadIdx.x) / kDeltaLanes,
            lane = static_cast<int>(threadIdx.x) % kDeltaLanes;
  float sum = 0.0F;
  if (query < d.queries) {
    const T* const slopes =
        d.slopes + pair / d.heads * d.strides[0] + pair % d.heads * d.strides[1] + query * d.strides[2];
    const T* const results = d.results + (std::int64_t{pair} * d.queries + query) * d.extent;
    for (int at = lane * kPack; at < d.extent; at += kDeltaLanes * kPack) {
      const auto a = *reinterpret_cast<const Pack<T, kPack>*>(slopes + at);
      const auto b = *reinterpret_cast<const Pack<T, kPack>*>(results + at);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum += to_float(a.values[i]) * to_float(b.values[i]);
    }
  }
#pragma unroll
  for (int mask = 1; mask < kDeltaLanes; mask *= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
  if (lane == 0) d.out[std::int64_t{pair} * d.padded_queries + query] = sum;
}

}  // namespace adjoint::cuda::attention

// Packs the filter into the blocks that the tensor-core kernel of conv and conv_transpose streams.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>
#include <cstring>

namespace adjoint::cuda::correlation {

/// Units that a thread packs of a step, one of every four rows of its block.
inline constexpr int kUnitsOfThread = kChunkUnits / 4;

template <Arithmetic kArithmetic, class T, int kChannels>
__device__ __forceinline__ void write_units(const T (&values)[kUnitsOfThread][kChannels], int columns,
                                            std::uint32_t* to) {
  using Traits = ArithmeticTraits<kArithmetic>;
#pragma unroll
  for (int i = 0; i < kUnitsOfThread; ++i, to += 4 * columns) {
    if constexpr (Traits::kHalf) {
      memcpy(to, values[i], sizeof(*to));
    } else if constexpr (Traits::kSplit) {
      split_tf32(values[i][0], to[0], to[kChunkUnits * columns]);
    } else {
      *to = ptx::round_to_tf32(values[i][0]);
    }
  }
}

inline constexpr int kPackThreads = 256;

/// Which of the packing's blocks of threads one is: a chunk and column tile, and which part of the tile's columns.
struct PackBlock {
  int chunk, column_tile, part;
};

/// The steps of a class that hold a column of its tile, one after another.
class StepsOfColumn {
  const CorrelationPlan& plan_;
  const int column_, end_pass_, by_;
  const int first_;  // of a pass's steps
  int pass_, step_;

 public:
  /// Every by-th step of a pass, from the first-th on.
  __device__ __forceinline__ StepsOfColumn(const CorrelationPlan& plan, const CorrelationClass& c, int column,
                                           int first, int by)
      : plan_(plan), column_(column), end_pass_(c.first_pass + c.passes), by_(by), first_(first), pass_(c.first_pass) {
    if (pass_ < end_pass_) step_ = plan_.passes[pass_].first_step + first_ - by_;
  }

  /// To the next; false where there is none.
  __device__ __forceinline__ bool next() {
    while (pass_ < end_pass_) {
      step_ += by_;
      if (step_ >= plan_.passes[pass_].end_step) {
        ++pass_;
        if (pass_ < end_pass_) step_ = plan_.passes[pass_].first_step + first_ - by_;
        continue;
      }
      const CorrelationColumns range = correlation_columns(plan_, plan_.steps[step_]);
      if (column_ >= range.first && column_ < range.first + range.count) return true;
    }
    return false;
  }

  __device__ __forceinline__ const CorrelationPass& pass() const { return plan_.passes[pass_]; }
  __device__ __forceinline__ int step() const { return step_; }
};

/// A part of a tile's columns, and what of the filter they are of: [channel that is summed, of a chunk][channel of the
/// result, or (row of phases, channel)][tap], in shared memory.
template <class T>
class StagedFilter {
  const CorrelationPlan& plan_;
  T* const staged_;
  const int first_column_;  // of the plan's pack_columns
  const int first_;         // (row of phases, channel) of that column

  /// (row of phases, channel) of a column, counted through the class.
  __device__ __forceinline__ static int index_of(const CorrelationPlan& plan, const CorrelationWork& work, int column) {
    const int segment_columns = plan.tile_columns >> (plan.segments - 1);
    int place = work.tile_in_class * segment_columns + column % segment_columns;
    return plan.phase_divider.split(place);
  }

 public:
  __device__ __forceinline__ StagedFilter(const CorrelationPlan& plan, const CorrelationWork& work, int first_column,
                                          void* staged)
      : plan_(plan),
        staged_(static_cast<T*>(staged)),
        first_column_(first_column),
        first_(index_of(plan, work, first_column)) {}

  /// By all threads of the block: reads along memory, several elements under way at once.
  template <int kChunkChannels>
  __device__ __forceinline__ void load(const CorrelationWork& work, const T* filter, int chunk) const {
    constexpr int kAtOnce = 8;
    const CorrelationFilterSteps steps = correlation_filter_steps(plan_, work.group);
    const int taps = plan_.kernel_h * plan_.kernel_w, count = kChunkChannels * plan_.pack_channels * taps;
    const int threads = static_cast<int>(blockDim.x), pitch = correlation_pack_pitch(plan_);
#pragma unroll 1
    for (int first = static_cast<int>(threadIdx.x); first < count; first += kAtOnce * threads) {
      T values[kAtOnce];
      int places[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        int tap = min(first + i * threads, count - 1), inner = plan_.tap_divider.split(tap), k, of_result;
        if (plan_.transposed) {
          of_result = inner;
          k = plan_.pack_divider.split(of_result);
        } else {
          k = inner % kChunkChannels;
          of_result = inner / kChunkChannels;
        }
        places[i] = (k * plan_.pack_channels + of_result) * pitch + tap;
        int channel = first_ + of_result;
        const int row = plan_.channel_divider.split(channel);
        const int summed = chunk * kChunkChannels + k;
        const bool valid = row < plan_.phases_per_class && summed < plan_.k_channels;
        values[i] =
            valid ? filter[steps.base + summed * steps.k_step + channel * steps.n_step + tap] : from_float<T>(0.0F);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i * threads < count) staged_[places[i]] = values[i];
      }
    }
  }

  /// A column's value for the chunk's k-th channel is at k * step() + tap from here.
  __device__ __forceinline__ const T* column(const CorrelationWork& work, int column) const {
    return staged_ + (index_of(plan_, work, column) - first_) * correlation_pack_pitch(plan_);
  }
  __device__ __forceinline__ int step() const { return plan_.pack_channels * correlation_pack_pitch(plan_); }
};

/// Filter blocks in the order of every tile's walk: [unit / 4][column][unit % 4] units, tails after heads where split.
/// A block of threads packs a chunk of all steps of some columns of a column tile, by way of shared memory: columns
/// need their taps one by one, which memory has side by side.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void pack_filter(const CorrelationPlan& plan, const void* filter, std::uint32_t* blocks,
                                            const PackBlock& block) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kChannels = Traits::kHalf ? 2 : 1;  // of a unit
  const int chunk = block.chunk;
  const CorrelationWork work = correlation_work(plan, static_cast<std::int64_t>(block.column_tile) * plan.cluster);
  const CorrelationClass& c = plan.class_list[work.class_index];
  const int first_column = block.part * plan.pack_columns;
  const StagedFilter<T> staged(plan, work, first_column, ptx::dynamic_smem());
  staged.template load<kChunkUnits * kChannels>(work, static_cast<const T*>(filter), chunk);
  __syncthreads();
  const int slots = 4 * plan.pack_columns, threads = static_cast<int>(blockDim.x),
            thread = static_cast<int>(threadIdx.x);
  // Both are powers of two; a division takes longer than the reads.
  const int log2_at_once = 31 - __clz(slots < threads ? slots : threads), at_once = 1 << log2_at_once;
  const int row = thread >> log2_at_once, rows = threads >> log2_at_once;
  for (int slot = thread & (at_once - 1); slot < slots; slot += at_once) {
    const int column_place = first_column + slot / 4, lane_unit = slot % 4;
    const CorrelationColumn column = correlation_column(plan, work, column_place);
    const T* const from = staged.column(work, column_place);
    for (StepsOfColumn steps(plan, c, column_place, row, rows); steps.next();) {
      const CorrelationPass& pass = steps.pass();
      const int s = steps.step();
      const CorrelationColumns range = correlation_columns(plan, plan.steps[s]);
      T values[kUnitsOfThread][kChannels];
#pragma unroll
      for (int i = 0; i < kUnitsOfThread; ++i) {
        int unit = 4 * i + lane_unit, tap;
        if (plan.gathers) {
          const CorrelationUnit gathered = correlation_unit(plan, pass, s, unit);
          tap = gathered.tap < 0 ? -1 : correlation_filter_tap(plan, plan.taps[gathered.tap], column);
          unit = gathered.channel;
        } else {
          tap = correlation_filter_tap(plan, plan.steps[s].tap, column);
        }
#pragma unroll
        for (int j = 0; j < kChannels; ++j) {
          values[i][j] = tap < 0 ? from_float<T>(0.0F) : from[(unit * kChannels + j) * staged.step() + tap];
        }
      }
      write_units<kArithmetic>(values, range.count,
                               blocks +
                                   (work.first_half + correlation_block_half(plan, pass, chunk, s)) *
                                       (plan.w_block_units / 2) +
                                   4 * (column_place - range.first) + lane_unit);
    }
  }
}

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(kPackThreads)
    pack_filter_kernel(const __grid_constant__ CorrelationPlan plan, const void* filter, std::uint32_t* blocks) {
  pack_filter<kArithmetic>(plan, filter, blocks,
                           {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)});
}

}  // namespace adjoint::cuda::correlation

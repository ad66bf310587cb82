// Packs the filter into the blocks that the tensor-core kernel of conv and conv_transpose streams.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>
#include <cstring>

namespace adjoint::cuda::correlation {

/// What a unit of K holds for one column: its first channel, and where channel 0's tap lies in the filter; -1 for
/// zeros.
struct PackedUnit {
  std::int64_t first;
  int unit;
};

/// Units that a thread packs of a step, one of every four rows of its block.
inline constexpr int kUnitsOfThread = kChunkUnits / 4;

/// Reads those of a step; locate(i) gives the i-th.
template <class T, int kChannels, class Locate>
__device__ __forceinline__ void read_units(const CorrelationPlan& plan, const T* filter, const Locate& locate,
                                           std::int64_t k_stride, T (&values)[kUnitsOfThread][kChannels]) {
#pragma unroll
  for (int i = 0; i < kUnitsOfThread; ++i) {
    const auto [first, unit] = locate(i);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const int channel = unit * kChannels + c;
      values[i][c] = first >= 0 && channel < plan.k_channels ? filter[first + channel * k_stride] : from_float<T>(0.0F);
    }
  }
}

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
  int chunk, column_tile, part, parts;
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

/// Filter blocks in the order of every tile's walk: [unit / 4][column][unit % 4] units, tails after heads where split.
/// A block of threads packs a chunk of all steps of some columns of a column tile: neighbouring taps, which lie in the
/// same sectors. A thread reads several steps' units before it writes any: for all that the compiler knows, what it
/// writes might change what it reads.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void pack_filter(const CorrelationPlan& plan, const void* filter_pointer,
                                            std::uint32_t* blocks, const PackBlock& block) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kChannels = Traits::kHalf ? 2 : 1, kStepsAtOnce = 4;
  const auto* filter = static_cast<const T*>(filter_pointer);
  const int chunk = block.chunk;
  const CorrelationWork work = correlation_work(plan, static_cast<std::int64_t>(block.column_tile) * plan.cluster);
  const CorrelationClass& c = plan.class_list[work.class_index];
  const CorrelationFilterSteps of_filter = correlation_filter_steps(plan, work.group);
  const int slots = 4 * plan.tile_columns, threads = static_cast<int>(blockDim.x),
            thread = static_cast<int>(threadIdx.x);
  // Both are powers of two; a division takes longer than the reads.
  const int log2_at_once = 31 - __clz(slots < threads ? slots : threads), at_once = 1 << log2_at_once;
  const int first_slot = block.part * at_once + (thread & (at_once - 1)), row = thread >> log2_at_once,
            rows = threads >> log2_at_once;
  for (int slot = first_slot; slot < slots; slot += block.parts * at_once) {
    const CorrelationColumn column = correlation_column(plan, work, slot / 4);
    const std::int64_t pair = of_filter.base + column.channel * of_filter.n_step;
    StepsOfColumn steps(plan, c, slot / 4, row, rows);
    for (bool more = true; more;) {
      T values[kStepsAtOnce][kUnitsOfThread][kChannels];
      std::uint32_t* to[kStepsAtOnce];
      int columns[kStepsAtOnce];
#pragma unroll
      for (int i = 0; i < kStepsAtOnce; ++i) {
        to[i] = nullptr;
        more = more && steps.next();
        if (!more) continue;
        const CorrelationPass& pass = steps.pass();
        const int s = steps.step();
        const CorrelationColumns range = correlation_columns(plan, plan.steps[s]);
        columns[i] = range.count;
        to[i] = blocks + (work.first_half + correlation_block_half(plan, pass, chunk, s)) * (plan.w_block_units / 2) +
                4 * (slot / 4 - range.first) + slot % 4;
        if (plan.gathers) {
          const auto locate = [&](int quad) {
            const CorrelationUnit unit = correlation_unit(plan, pass, s, 4 * quad + slot % 4);
            const int tap = unit.tap < 0 ? -1 : correlation_filter_tap(plan, plan.taps[unit.tap], column);
            return PackedUnit{tap < 0 ? -1 : pair + tap, unit.channel};
          };
          read_units(plan, filter, locate, of_filter.k_step, values[i]);
        } else {
          const int tap = correlation_filter_tap(plan, plan.steps[s].tap, column);
          const auto locate = [&](int quad) {
            return PackedUnit{tap < 0 ? -1 : pair + tap, chunk * kChunkUnits + slot % 4 + 4 * quad};
          };
          read_units(plan, filter, locate, of_filter.k_step, values[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kStepsAtOnce; ++i) {
        if (to[i] != nullptr) write_units<kArithmetic>(values[i], columns[i], to[i]);
      }
    }
  }
}

template <Arithmetic kArithmetic>
__global__ void pack_filter_kernel(const __grid_constant__ CorrelationPlan plan, const void* filter,
                                   std::uint32_t* blocks) {
  pack_filter<kArithmetic>(plan, filter, blocks,
                           {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z),
                            static_cast<int>(gridDim.z)});
}

}  // namespace adjoint::cuda::correlation

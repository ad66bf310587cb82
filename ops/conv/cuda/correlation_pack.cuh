// Packs the filter into the blocks that the tensor-core kernel of conv and conv_transpose streams.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

inline constexpr int kPackThreads = 256;

/// Which of the packing's blocks of threads one is: a chunk of a group, and which of its (row of phases, channel)s.
struct PackBlock {
  int chunk, group, part;
};

/// What a block needs of the filter, in shared memory: [channel that is summed, of a chunk][(row of phases, channel)]
/// [tap]. It lies in memory with taps side by side, which columns need one by one.
template <class T, int kChunkChannels>
class StagedFilter {
  const CorrelationPlan& plan_;
  T* const staged_;
  const int pitch_;

 public:
  __device__ __forceinline__ StagedFilter(const CorrelationPlan& plan, void* staged)
      : plan_(plan), staged_(static_cast<T*>(staged)), pitch_(correlation_pack_pitch(plan)) {}

  /// The value at a tap of the block's i-th (row of phases, channel), for the chunk's k-th channel.
  __device__ __forceinline__ T* at(int k, int i, int tap) const {
    return staged_ + (k * plan_.pack_channels + i) * pitch_ + tap;
  }

  /// By all threads of the block, in the order of memory; several elements are under way at once. first: the block's
  /// first (row of phases, channel).
  __device__ __forceinline__ void load(const T* filter, const PackBlock& block, int first) const {
    constexpr int kAtOnce = 8;
    const CorrelationFilterSteps steps = correlation_filter_steps(plan_, block.group);
    const int taps = static_cast<int>(plan_.tap_divider.divisor()), channels = plan_.pack_channels;
    const int count = kChunkChannels * channels * taps, threads = static_cast<int>(blockDim.x);
    const int first_summed = block.chunk * kChunkChannels;
    const T* const from = filter + steps.base + first_summed * steps.k_step;
    // Of conv a result's channels lie together, of conv_transpose a channel's results.
    const int inner_count = plan_.transposed ? channels : kChunkChannels;
    const Divider& inner_divider = plan_.pack_divider;
    int tap = static_cast<int>(threadIdx.x), inner = plan_.tap_divider.split(tap), outer;
    if (plan_.transposed) {
      outer = inner_divider.split(inner);
    } else {
      outer = inner / kChunkChannels;
      inner %= kChunkChannels;
    }
    // From an element of a thread to its next: a division each would be most of the work.
    int tap_step = threads, inner_step = plan_.tap_divider.split(tap_step), outer_step;
    if (plan_.transposed) {
      outer_step = inner_divider.split(inner_step);
    } else {
      outer_step = inner_step / kChunkChannels;
      inner_step %= kChunkChannels;
    }
#pragma unroll 1
    for (int done = static_cast<int>(threadIdx.x); done < count; done += kAtOnce * threads) {
      T values[kAtOnce];
      T* to[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int k = plan_.transposed ? outer : inner, i = plan_.transposed ? inner : outer;
        int channel = first + i, row = 0;
        if (plan_.phases_per_class > 1) row = plan_.channel_divider.split(channel);
        const bool valid = done + j * threads < count && channel < plan_.n_channels && row < plan_.phases_per_class &&
                           first_summed + k < plan_.k_channels;
        values[j] = valid ? from[k * steps.k_step + channel * steps.n_step + tap] : from_float<T>(0.0F);
        to[j] = done + j * threads < count ? at(k, i, tap) : nullptr;
        tap += tap_step;
        inner += inner_step;
        outer += outer_step;
        if (tap >= taps) {
          tap -= taps;
          ++inner;
        }
        if (inner >= inner_count) {
          inner -= inner_count;
          ++outer;
        }
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (to[j] != nullptr) *to[j] = values[j];
      }
    }
  }
};

/// Four units of a column, in the filter block at `to`: where float32 is split their tails after all heads.
template <Arithmetic kArithmetic, class T, int kElements>
__device__ __forceinline__ void write_units(const T (&values)[kElements], int block_columns, uint4* to) {
  uint4 units, tails;
  pack_vector<ArithmeticTraits<kArithmetic>::kSplit>(values, units, tails);
  *to = units;
  if constexpr (ArithmeticTraits<kArithmetic>::kSplit) to[kChunkUnits / 4 * block_columns] = tails;
}

/// Filter blocks in the order of every tile's walk: [unit / 4][column][unit % 4] units, tails after heads where split.
/// A block of threads packs, for all phases and taps, a chunk of some channels: a thread four units of a column.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void pack_filter(const CorrelationPlan& plan, const void* filter, std::uint32_t* blocks,
                                            const PackBlock& block) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kChannels = Traits::kHalf ? 2 : 1, kQuads = kChunkUnits / 4;  // of a unit, of a chunk
  const StagedFilter<T, kChunkUnits * kChannels> staged(plan, ptx::dynamic_smem());
  const int first = block.part * plan.pack_channels;  // (row of phases, channel)
  staged.load(static_cast<const T*>(filter), block, first);
  __syncthreads();
  const int phases = correlation_segment_phases(plan), log2_segments = plan.segments - 1;
  const int columns = plan.pack_channels * phases, slots = kQuads * columns;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  // Where there are fewer slots than threads, every rows-th step is a thread's.
  const int rows = max(threads / slots, 1), row = thread / slots;
  const int segment_columns = plan.tile_columns >> log2_segments, log2_segment_columns = 31 - __clz(segment_columns);
  if (row >= rows) return;
#pragma unroll 1
  for (int slot = thread - row * slots; slot < slots; slot += threads) {
    const int quad = slot / columns, place = first * phases + slot - quad * columns;  // in a segment of the class
    const int tile = place >> log2_segment_columns;
    if (tile >= plan.tiles_per_class) continue;
    CorrelationColumn column;
    column.phase_w = place;
    column.channel = plan.phase_divider.split(column.phase_w);
    const int i = column.channel - first, phase = column.phase_w;
    const int phase_row = plan.channel_divider.split(column.channel);
#pragma unroll 1
    for (int class_index = 0; class_index < plan.classes; ++class_index) {
      const CorrelationClass& c = plan.class_list[class_index];
      column.phase_h = class_index * plan.phases_per_class + phase_row;
      column.valid = phase_row < plan.phases_per_class && column.phase_h < plan.out_stride_h;
      const std::int64_t first_half = correlation_first_half(plan, block.group, c, tile);
#pragma unroll 1
      for (int segment = 0; segment < plan.segments; ++segment) {
        const int place_in_tile = (segment << log2_segment_columns) + (place & (segment_columns - 1));
        column.phase_w = phase + segment * (plan.out_stride_w >> log2_segments);
#pragma unroll 1
        for (int p = c.first_pass; p < c.first_pass + c.passes; ++p) {
          const CorrelationPass& pass = plan.passes[p];
#pragma unroll 1
          for (int s = pass.first_step + row; s < pass.end_step; s += rows) {
            const CorrelationColumns range = correlation_columns(plan, plan.steps[s]);
            const int place_in_block = place_in_tile - range.first;
            if (place_in_block < 0 || place_in_block >= range.count) continue;
            T values[4 * kChannels];
            int tap = plan.gathers ? -1 : correlation_filter_tap(plan, plan.steps[s].tap, column);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              int unit = 4 * quad + j;
              if (plan.gathers) {
                const CorrelationUnit gathered = correlation_unit(plan, pass, s, unit);
                unit = gathered.channel;
                tap = gathered.tap < 0 ? -1 : correlation_filter_tap(plan, plan.taps[gathered.tap], column);
              }
#pragma unroll
              for (int k = 0; k < kChannels; ++k) {
                values[j * kChannels + k] = tap < 0 ? from_float<T>(0.0F) : *staged.at(unit * kChannels + k, i, tap);
              }
            }
            const std::int64_t half = first_half + correlation_block_half(plan, pass, block.chunk, s);
            write_units<kArithmetic>(values, range.count,
                                     reinterpret_cast<uint4*>(blocks + half * (plan.w_block_units / 2)) +
                                         quad * range.count + place_in_block);
          }
        }
      }
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

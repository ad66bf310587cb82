// Packs the filter into the blocks that the tensor-core kernel of conv and conv_transpose streams.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/correlation_pack_layout.h>
#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

inline constexpr int kPackThreads = 256;

/// Which of the packing's blocks of threads one is: a chunk of a group, and which of the result's channels.
struct PackBlock {
  int chunk, group, part;
};

/// What a block needs of the filter, in shared memory (CorrelationPackLayout); zeros where there are no channels.
/// Memory has taps side by side, which columns need one by one.
template <class T>
class StagedFilter {
  const CorrelationPlan& plan_;
  const CorrelationPackLayout layout_;
  T* const staged_;

  /// Copies `runs` runs, `step` elements apart from `from` on, of whose elements the first `valid` are the filter's.
  template <int kVector>
  __device__ __forceinline__ void load_runs(const T* from, std::int64_t step, int runs, int valid) const {
    constexpr int kAtOnce = 16 / kVector;  // under way of a thread
    const int count = layout_.runs * layout_.run, threads = kVector * static_cast<int>(blockDim.x);
    const int gap = layout_.pitch - static_cast<int>(plan_.tap_divider.divisor());
#pragma unroll 1
    for (int first = kVector * static_cast<int>(threadIdx.x); first < count; first += kAtOnce * threads) {
      Pack<T, kVector> elements[kAtOnce];
      int places[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        int element = first + i * threads;
        const bool inside = element < count;
        const int run = plan_.run_divider.split(element);
        places[i] = inside ? run * layout_.run_pitch + element : -1;
        if (inside && gap != 0) places[i] += static_cast<int>(plan_.tap_divider.divide(element)) * gap;
#pragma unroll
        for (int j = 0; j < kVector; ++j) elements[i].values[j] = from_float<T>(0.0F);
        if (inside && run < runs && element < valid) {
          elements[i] = *reinterpret_cast<const Pack<T, kVector>*>(from + run * step + element);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (places[i] < 0) continue;
#pragma unroll
        for (int j = 0; j < kVector; ++j) staged_[places[i] + j] = elements[i].values[j];
      }
    }
  }

 public:
  __device__ __forceinline__ StagedFilter(const CorrelationPlan& plan, void* staged)
      : plan_(plan), layout_(correlation_pack_layout(plan)), staged_(static_cast<T*>(staged)) {}

  /// The value at a tap of the block's i-th channel, for the chunk's k-th.
  __device__ __forceinline__ T at(int k, int i, int tap) const {
    const int run = plan_.transposed ? k : i, pair = plan_.transposed ? i : k;
    return staged_[run * layout_.run_pitch + pair * layout_.pitch + tap];
  }

  /// By all threads of the block. first: its first channel.
  __device__ __forceinline__ void load(const T* filter, const PackBlock& block, int first) const {
    constexpr int kVector = 4;
    const CorrelationFilterSteps steps = correlation_filter_steps(plan_, block.group);
    const int taps = static_cast<int>(plan_.tap_divider.divisor()), chunk_channels = kChunkUnits * plan_.unit_channels;
    const int first_summed = block.chunk * chunk_channels;
    const int summed = max(min(plan_.k_channels - first_summed, chunk_channels), 0);
    const int results = max(min(plan_.n_channels - first, plan_.pack_channels), 0);
    const T* const from = filter + steps.base + first_summed * steps.k_step + first * steps.n_step;
    const std::int64_t step = plan_.transposed ? steps.k_step : steps.n_step;
    const int runs = plan_.transposed ? summed : results, valid = (plan_.transposed ? results : summed) * taps;
    // Taps whose pairs have a gap between them are not to share a vector.
    const bool vectors = (taps % 2 != 0 || taps % kVector == 0) && layout_.run % kVector == 0 && valid % kVector == 0 &&
                         step % kVector == 0 && reinterpret_cast<std::uintptr_t>(from) % (kVector * sizeof(T)) == 0;
    if (vectors) {
      load_runs<kVector>(from, step, runs, valid);
    } else {
      load_runs<1>(from, step, runs, valid);
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

template <int kElements>
__device__ __forceinline__ void fill_taps(int (&taps)[kElements], int tap) {
#pragma unroll
  for (int k = 0; k < kElements; ++k) taps[k] = tap;
}

/// The filter's taps of a unit's elements: all the same one, but for pairs of columns.
template <int kElements>
__device__ __forceinline__ void unit_taps(const CorrelationPlan& plan, const CorrelationTap& place,
                                          const CorrelationColumn& column, int (&taps)[kElements]) {
  fill_taps(taps, correlation_filter_tap(plan, place, column));
  if (kElements == 2 && plan.unit_columns == 2) taps[kElements - 1] = correlation_filter_tap(plan, place, column, 1);
}

/// Filter blocks in the order of every tile's walk: [unit / 4][column][unit % 4] units, tails after heads where split.
/// A block of threads packs, for all phases and taps, a chunk of some channels: a thread some quads of a column's
/// units.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void pack_filter(const CorrelationPlan& plan, const void* filter, std::uint32_t* blocks,
                                            const PackBlock& block) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kElements = Traits::kHalf ? 2 : 1, kQuads = kChunkUnits / 4;  // of a unit, of a chunk
  const StagedFilter<T> staged(plan, ptx::dynamic_smem());
  const int first = block.part * plan.pack_channels;
  staged.load(static_cast<const T*>(filter), block, first);
  __syncthreads();
  const int phases = correlation_segment_phases(plan), log2_segments = plan.segments - 1;
  const int columns = plan.pack_channels * phases;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  // A column's quads together where its steps suffice for all threads, for what they share takes longest.
  int quads = kQuads;
  while (quads > 1 && (plan.class_list[0].steps << log2_segments) * columns * (kQuads / quads) < threads) quads /= 2;
  const int slots = kQuads / quads * columns;
  // Where there are fewer slots than threads, every rows-th step of a segment is a thread's.
  const int rows = max(threads / slots, 1), row = thread / slots;
  const int segment_columns = plan.tile_columns >> log2_segments, log2_segment_columns = 31 - __clz(segment_columns);
  if (row >= rows) return;
#pragma unroll 1
  for (int slot = thread - row * slots; slot < slots; slot += threads) {
    const int first_quad = slot / columns * quads;
    int phase = slot % columns;
    const int i = plan.phase_divider.split(phase);
#pragma unroll 1
    for (int index = 0; index < plan.classes * plan.phases_per_class; ++index) {
      const int class_index = plan.phases_per_class == 1 ? index : 0, class_row = index - class_index;
      if (first + i >= plan.n_channels && class_row + 1 < plan.phases_per_class) continue;
      const int place = (class_row * plan.n_channels + first + i) * phases + phase;  // in a segment of the class
      const int tile = place >> log2_segment_columns;
      if (tile >= plan.tiles_per_class) continue;
      const CorrelationClass& c = plan.class_list[class_index];
      const std::int64_t first_half = correlation_first_half(plan, block.group, c, tile);
      int pass_index = c.first_pass;  // of a thread's steps, which ascend
#pragma unroll 1
      for (int item = row; item < c.steps << log2_segments; item += rows) {
        const int segment = item & log2_segments;
        const int s = plan.passes[c.first_pass].first_step + (item >> log2_segments);
        while (s >= plan.passes[pass_index].end_step) ++pass_index;
        const CorrelationPass& pass = plan.passes[pass_index];
        const CorrelationColumns range = correlation_columns(plan, plan.steps[s]);
        const int place_in_block = (segment << log2_segment_columns) + (place & (segment_columns - 1)) - range.first;
        if (place_in_block < 0 || place_in_block >= range.count) continue;
        const CorrelationColumn column{first + i, index, phase + segment * phases,
                                       first + i < plan.n_channels && index < plan.out_stride_h};
        const std::int64_t half = first_half + correlation_block_half(plan, pass, block.chunk, s);
        auto* const to = reinterpret_cast<uint4*>(blocks + half * (plan.w_block_units / 2)) + place_in_block;
        int taps[kElements] = {};  // of a unit's elements
        if (!plan.gathers) unit_taps(plan, plan.taps[s], column, taps);
#pragma unroll 1
        for (int quad = first_quad; quad < first_quad + quads; ++quad) {
          T values[4 * kElements];
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            int unit = 4 * quad + j;
            if (plan.gathers) {
              const CorrelationUnit gathered = correlation_unit(plan, pass, s, unit);
              unit = gathered.channel;
              unit_taps(plan, plan.taps[max(gathered.tap, 0)], column, taps);
              if (gathered.tap < 0) fill_taps(taps, -1);
            }
#pragma unroll
            for (int k = 0; k < kElements; ++k) {
              const int channel = unit * plan.unit_channels + k * (plan.unit_channels - 1);
              values[j * kElements + k] = taps[k] < 0 ? from_float<T>(0.0F) : staged.at(channel, i, taps[k]);
            }
          }
          write_units<kArithmetic>(values, range.count, to + quad * range.count);
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

// Packs the filter into the blocks that the tensor-core kernel of conv and conv_transpose streams.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/correlation/filter_layout.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>
#include <limits>

namespace adjoint::cuda::correlation {

inline constexpr int kPackThreads = 256;

/// Identifies one of the packing's blocks of threads: a chunk of a group, and a part of the result's channels.
struct PackBlock {
  int chunk, group, part;
};

/// Loads a block's part of the filter into shared memory (CorrelationPacking), with zeros for missing channels. Memory
/// has taps side by side, which columns need one by one.
template <class T>
struct FilterPart {
  const CorrelationPlan& plan;
  T* staged;

  /// Copies runs, `step` elements apart from `from` on, by vectors. A thread's place in a run is the same in all of its
  /// runs. kWhole: all runs exist, otherwise `runs` of them, and `valid` elements of each.
  template <int kVector, bool kWhole>
  __device__ __forceinline__ void load_runs(const T* from, std::int64_t step, int runs, int valid) const {
    constexpr int kAtOnce = 4;                               // in flight per thread
    constexpr int kWord = kVector == 1 ? 1 : 4 / sizeof(T);  // a read as vectors begins at a word
    const CorrelationPacking& packing = plan.packing;
    const int gap = packing.pitch - static_cast<int>(packing.taps.divisor());
    const int thread = static_cast<int>(threadIdx.x), vectors = (packing.run + kVector - 1) / kVector;
    const int threads = static_cast<int>(blockDim.x);  // a power of two
    const int log2_lanes = min(32 - __clz(vectors - 1), 31 - __clz(threads)), lanes = 1 << log2_lanes;
    const int together = threads >> log2_lanes, first_run = thread >> log2_lanes;  // concurrent runs
    const std::int64_t next = together * step;
#pragma unroll 1
    for (int element = kVector * (thread & (lanes - 1)); element < packing.run; element += kVector * lanes) {
      T* to = staged + first_run * packing.run_pitch + element;
      if (gap != 0) to += static_cast<int>(packing.taps.divide(element)) * gap;
      const T* source = from + first_run * step + element;
#pragma unroll 1
      for (int first = first_run; first < packing.runs; first += kAtOnce * together) {
        Pack<T, kVector> values[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const int run = first + i * together;
          if constexpr (!kWhole) {
#pragma unroll
            for (int j = 0; j < kVector; ++j) values[i].values[j] = from_float<T>(0.0F);
          }
          if (run < (kWhole ? packing.runs : runs) && (kWhole || element < valid)) {
            values[i] = *reinterpret_cast<const Pack<T, kVector>*>(source);
          }
          source += next;
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (first + i * together < packing.runs) {
#pragma unroll
            for (int j = 0; j < kVector; j += kWord) {
              Pack<T, kWord> word;
#pragma unroll
              for (int k = 0; k < kWord; ++k) word.values[k] = values[i].values[j + k];
              *reinterpret_cast<Pack<T, kWord>*>(to + j) = word;
            }
          }
          to += together * packing.run_pitch;
        }
      }
    }
  }

  /// Called by all threads of the block. first: its first channel.
  __device__ __forceinline__ void load(const T* filter, const PackBlock& block, int first) const {
    constexpr int kVector = 4;
    const CorrelationFilterSteps steps = correlation_filter_steps(plan, block.group);
    const int taps = static_cast<int>(plan.packing.taps.divisor()), chunk_channels = kChunkUnits * plan.unit_channels;
    const int first_summed = block.chunk * chunk_channels;
    const int summed = max(min(plan.k_channels - first_summed, chunk_channels), 0);
    const int results = max(min(plan.n_channels - first, plan.packing.channels), 0);
    const T* const from = filter + steps.base + first_summed * steps.k_step + first * steps.n_step;
    const std::int64_t step = plan.transposed ? steps.k_step : steps.n_step;
    const int runs = plan.transposed ? summed : results, valid = (plan.transposed ? results : summed) * taps;
    // Taps whose pairs have a gap between them must not share a vector.
    const bool vectors = (taps % 2 != 0 || taps % kVector == 0) && plan.packing.run % kVector == 0 &&
                         valid % kVector == 0 && step % kVector == 0 &&
                         reinterpret_cast<std::uintptr_t>(from) % (kVector * sizeof(T)) == 0;
    if (!vectors) {
      load_runs<1, false>(from, step, runs, valid);
    } else if (runs == plan.packing.runs && valid == plan.packing.run) {
      load_runs<kVector, true>(from, step, runs, valid);
    } else {
      load_runs<kVector, false>(from, step, runs, valid);
    }
  }
};

/// Writes four units of a column, of which `mask` is kept, to the filter block at `to`: for split float32 their tails
/// after all heads.
template <Arithmetic kArithmetic, class T, int kElements>
__device__ __forceinline__ void write_units(const T (&values)[kElements], std::uint32_t mask, int block_columns,
                                            uint4* to) {
  uint4 units, tails;
  pack_vector<ArithmeticTraits<kArithmetic>::kSplit>(values, units, tails);
  *to = make_uint4(units.x & mask, units.y & mask, units.z & mask, units.w & mask);
  if constexpr (ArithmeticTraits<kArithmetic>::kSplit) {
    to[kChunkUnits / 4 * block_columns] = make_uint4(tails.x & mask, tails.y & mask, tails.z & mask, tails.w & mask);
  }
}

/// The filter's taps of a unit's elements at a tap's place (-1: no tap): all the same one, except for pairs of columns.
template <int kElements>
__device__ __forceinline__ void unit_taps(const CorrelationPlan& plan, int tap, const CorrelationPackPlace& place,
                                          int (&taps)[kElements]) {
  const CorrelationColumn column{0, place.index, place.phase + place.segment * correlation_segment_phases(plan),
                                 place.index < plan.out_stride_h};
#pragma unroll
  for (int k = 0; k < kElements; ++k) taps[k] = -1;
  if (tap < 0) return;
  taps[0] = correlation_filter_tap(plan, plan.taps[tap], column);
  if (kElements == 2) {
    taps[kElements - 1] = plan.unit_columns == 2 ? correlation_filter_tap(plan, plan.taps[tap], column, 1) : taps[0];
  }
}

template <int kElements>
__device__ __forceinline__ CorrelationPackItem pack_item(const CorrelationPlan& plan, const PackBlock& block,
                                                         int number) {
  const CorrelationPackPlace place = correlation_pack_place(plan, number);
  const bool by_class = plan.phases_per_class == 1;
  const CorrelationClass& c = plan.class_list[by_class ? place.index : 0];
  const int row = by_class ? 0 : place.index;  // within the class
  const CorrelationColumns columns = correlation_columns(plan, plan.steps[place.step]);
  const int segment_columns = plan.tile_columns >> (plan.segments - 1);
  CorrelationPackItem item;
  item.first_half = static_cast<int>(correlation_first_half(plan, block.group, c, 0) +
                                     correlation_block_half(plan, plan.passes[place.pass], block.chunk, place.step));
  item.tile_halves = c.halves * plan.chunks;
  item.first = row * plan.n_channels * correlation_segment_phases(plan) + place.phase;
  // Columns of zeros fill the last row's last tile.
  item.channels = row + 1 < plan.phases_per_class ? plan.n_channels : std::numeric_limits<int>::max();
  item.shift = static_cast<std::int16_t>(place.segment * segment_columns - columns.first);
  item.columns = static_cast<std::int16_t>(columns.count);
  int taps[kElements];
  unit_taps(plan, plan.gathers ? -1 : place.step, place, taps);
  item.taps[0] = static_cast<std::int16_t>(taps[0]);
  item.taps[1] = static_cast<std::int16_t>(taps[kElements - 1]);
  return item;
}

/// The place of a block's channel for an item: its filter block, and the column in it. Returns false if it has none.
__device__ __forceinline__ bool place_column(const CorrelationPlan& plan, const CorrelationPackItem& item, int channel,
                                             std::int64_t& half, int& column) {
  const int log2_columns = 31 - __clz(plan.tile_columns) - (plan.segments - 1);  // of a segment
  const int place = item.first + channel * correlation_segment_phases(plan), tile = place >> log2_columns;
  half = item.first_half + std::int64_t{tile} * item.tile_halves;
  column = (place & ((1 << log2_columns) - 1)) + item.shift;
  return channel < item.channels && tile < plan.tiles_per_class && column >= 0 && column < item.columns;
}

/// The step from one summed channel's filter to the next.
__device__ __forceinline__ int summed_step(const CorrelationPlan& plan) {
  return plan.transposed ? plan.packing.run_pitch : plan.packing.pitch;
}

/// Some quads of a column's units, from the first on. `staged`: the channel's filter for the chunk's first unit.
template <Arithmetic kArithmetic, class T>
__device__ __forceinline__ void pack_quads(const CorrelationPlan& plan, const CorrelationPackItem& item,
                                           const T* staged, int first, int count, uint4* to) {
  constexpr int kElements = ArithmeticTraits<kArithmetic>::kHalf ? 2 : 1;  // per unit
  const int channel_step = summed_step(plan), step = channel_step * plan.unit_channels;
  std::uint32_t mask = kElements == 1 && item.taps[0] >= 0 ? 0xffffffffU : 0;
  const T* from[kElements];
#pragma unroll
  for (int k = 0; k < kElements; ++k) {
    if (kElements == 2 && item.taps[k] >= 0) mask |= 0xffffU << (16 * k);
    const int tap = item.taps[k] < 0 ? 0 : item.taps[k];
    from[k] = staged + 4 * first * step + k * (plan.unit_channels - 1) * channel_step + tap;
  }
  to += first * item.columns;
#pragma unroll 1
  for (int quad = 0; quad < count; ++quad) {
    T values[4 * kElements];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        values[j * kElements + k] = *from[k];
        from[k] += step;
      }
    }
    write_units<kArithmetic>(values, mask, item.columns, to);
    to += item.columns;
  }
}

/// The same for steps that gather: every unit has its own tap and channel.
template <Arithmetic kArithmetic, class T>
__device__ __forceinline__ void gather_quads(const CorrelationPlan& plan, const CorrelationPackItem& item, int number,
                                             const T* staged, int first, int count, uint4* to) {
  constexpr int kElements = ArithmeticTraits<kArithmetic>::kHalf ? 2 : 1;
  const CorrelationPackPlace place = correlation_pack_place(plan, number);
#pragma unroll 1
  for (int quad = first; quad < first + count; ++quad) {
    T values[4 * kElements];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const CorrelationUnit unit = correlation_unit(plan, plan.passes[place.pass], place.step, 4 * quad + j);
      int taps[kElements];
      unit_taps(plan, unit.tap, place, taps);
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        const int channel = unit.channel * plan.unit_channels + k * (plan.unit_channels - 1);
        values[j * kElements + k] = taps[k] < 0 ? from_float<T>(0.0F) : staged[channel * summed_step(plan) + taps[k]];
      }
    }
    write_units<kArithmetic>(values, 0xffffffffU, item.columns, to + quad * item.columns);
  }
}

/// Filter blocks in the order in which every tile uses them: [unit / 4][column][unit % 4] units, tails after heads if
/// split. A block of threads packs a chunk of some channels, for all phases and taps, and a thread some quads of a
/// column's units. Values that are the same for all channels are computed beforehand, because they need more time than
/// the channels.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void pack_filter(const CorrelationPlan& plan, const void* filter, std::uint32_t* blocks,
                                            const PackBlock& block) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr int kElements = Traits::kHalf ? 2 : 1;  // per unit
  constexpr int kLog2Quads = 2;                     // per chunk
  static_assert(kChunkUnits == 4 << kLog2Quads);
  const CorrelationPacking& packing = plan.packing;
  auto* const staged = reinterpret_cast<T*>(ptx::dynamic_smem());
  auto* const items = reinterpret_cast<CorrelationPackItem*>(ptx::dynamic_smem() + correlation_pack_items_offset(plan));
  const int first_channel = block.part * packing.channels, threads = static_cast<int>(blockDim.x);
  FilterPart<T>{plan, staged}.load(static_cast<const T*>(filter), block, first_channel);
  const int log2_channels = 31 - __clz(packing.channels), neighbours = static_cast<int>(packing.neighbours.divisor());
  const int channel_step = plan.transposed ? packing.pitch : packing.run_pitch;
#pragma unroll 1
  for (int first = 0; first < packing.items; first += packing.round) {
    const int count = min(packing.round, packing.items - first);
    if (first > 0) __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
      items[i] = pack_item<kElements>(plan, block, first + i);
    }
    __syncthreads();
    // A thread packs a whole column's quads if that leaves work for all threads.
    int log2_quads = kLog2Quads;
    while (log2_quads > 0 && count << (log2_channels + kLog2Quads - log2_quads) < threads) --log2_quads;
    const int log2_parts = kLog2Quads - log2_quads;
    const int units = (count + neighbours - 1) << (log2_channels + log2_parts);
#pragma unroll 1
    for (int unit = static_cast<int>(threadIdx.x); unit < units; unit += threads) {
      int number = unit;
      const int rest = packing.neighbours.split(number), i = rest & (packing.channels - 1);
      const int part = rest >> log2_channels & ((1 << log2_parts) - 1);
      number += (rest >> (log2_channels + log2_parts)) * neighbours;
      if (number >= count) continue;
      const CorrelationPackItem item = items[number];
      std::int64_t half;
      int column;
      if (!place_column(plan, item, first_channel + i, half, column)) continue;
      uint4* const to = reinterpret_cast<uint4*>(blocks + half * (plan.w_block_units / 2)) + column;
      const T* const of_channel = staged + i * channel_step;
      const int quads = 1 << log2_quads, first_quad = part << log2_quads;
      if (plan.gathers) {
        gather_quads<kArithmetic>(plan, item, first + number, of_channel, first_quad, quads, to);
      } else {
        pack_quads<kArithmetic>(plan, item, of_channel, first_quad, quads, to);
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

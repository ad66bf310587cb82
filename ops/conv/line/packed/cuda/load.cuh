// The loading warps of the kernel for few results a position and several taps (kernel.cuh), and the kernel that packs
// its filter beforehand.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/line/packed/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/line/cuda/line.cuh>

#include <cstdint>

namespace adjoint::cuda::packed {

template <class T>
struct Operands : line::Operands<T> {
  const uint4* packed;  // the filter, in the order of line/packed/plan.h
  TensorMap map;        // of the source, if its rows begin at multiples of 16 bytes (`vectors`)
};

/// The layout of a block's shared memory.
struct Shared {
  // Shared addresses of mbarriers, one for each place of each ring.
  std::uint32_t raw_full, raw_empty, source_full, source_empty, filter_full, filter_empty;
  // One phase a tile: all products are begun; `out` is stored.
  std::uint32_t begun, stored;
  float* biases;                         // [team][result of a product]
  unsigned char *raw, *packed, *filter;  // stages, stages, slots
  float* out;                            // buffers of [result of a product][position]
};

__device__ __forceinline__ Shared shared_of(const PackedPlan& p) {
  unsigned char* const smem = ptx::dynamic_smem();
  Shared shared;
  shared.raw_full = ptx::shared_address(smem);
  shared.raw_empty = shared.raw_full + 8 * kMostRawStages;
  shared.source_full = shared.raw_empty + 8 * kMostRawStages;
  shared.source_empty = shared.source_full + 8 * kPackedStages;
  shared.filter_full = shared.source_empty + 8 * kPackedStages;
  shared.filter_empty = shared.filter_full + 8 * kMostFilterSlots;
  shared.begun = shared.filter_empty + 8 * kMostFilterSlots;
  shared.stored = shared.begun + 8;
  static_assert(16 * (kMostRawStages + kPackedStages + kMostFilterSlots + 1) <= kPackedBarrierBytes);
  shared.biases = reinterpret_cast<float*>(smem + kPackedBarrierBytes);
  shared.packed = smem + p.table_bytes();
  shared.raw = shared.packed + kPackedStages * p.stage_bytes();
  shared.filter = shared.raw + p.raw_stages * p.raw_bytes();
  shared.out = reinterpret_cast<float*>(shared.filter + p.filter_slots * 16 * p.slot_vectors());
  return shared;
}

__device__ __forceinline__ void init_barriers(const Shared& shared) {
  for (int i = 0; i < kMostRawStages; ++i) {
    ptx::mbarrier_init(shared.raw_full + 8 * i, 1);
    ptx::mbarrier_init(shared.raw_empty + 8 * i, kPackers);
  }
  for (int i = 0; i < kPackedStages; ++i) {
    ptx::mbarrier_init(shared.source_full + 8 * i, kPackers);
    ptx::mbarrier_init(shared.source_empty + 8 * i, kPackedTeam);
  }
  for (int i = 0; i < kMostFilterSlots; ++i) {
    ptx::mbarrier_init(shared.filter_full + 8 * i, 1);
    ptx::mbarrier_init(shared.filter_empty + 8 * i, kPackedTeam);
  }
  ptx::mbarrier_init(shared.begun, kPackedTeam);
  ptx::mbarrier_init(shared.stored, kPackedTeam);
  ptx::fence_mbarrier_init();
}

/// Packs a stage's elements of the line, of four units each: `load(group, i, values)` reads element i of a group. A
/// thread reads several elements before it writes any, so that their latencies overlap. Neither the reads nor the
/// writes of a warp conflict in a bank.
template <bool kSplit, class T, class Load>
__device__ __forceinline__ void pack_elements(const PackedPlan& p, const Load& load, uint4* to, int thread) {
  constexpr int kChannels = 16 / sizeof(T), kItems = 16 / kChannels;
#pragma unroll 1
  for (int first = thread; first < p.length; first += kItems * kPackers) {
    T values[2][kItems][kChannels] = {};
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int i = first + item * kPackers;
      if (i >= p.length) break;
      load(0, i, values[0][item]);
      load(1, i, values[1][item]);
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int i = first + item * kPackers;
      if (i >= p.length) break;
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        uint4 units, tails;
        pack_vector<kSplit>(values[group][item], units, tails);
        to[group * p.length + i] = units;
        if constexpr (kSplit) to[(2 + group) * p.length + i] = tails;
      }
    }
  }
}

/// Packs the stage that the copy engine left in `raw`. Whole warps transpose halves, eight elements of eight channels
/// at a time.
template <bool kSplit, class T>
__device__ __forceinline__ void pack_raw(const PackedPlan& p, const T* raw, uint4* to, int thread) {
  if constexpr (sizeof(T) == 4) {
    const auto load = [&](int group, int i, T(&values)[4]) {
#pragma unroll
      for (int c = 0; c < 4; ++c) values[c] = raw[(4 * group + c) * p.length + i];
    };
    pack_elements<kSplit, T>(p, load, to, thread);
  } else {
    // A lane's address is that of one channel's eight elements, and of one packed element.
    const int lane = thread % 32, row = lane % 8, column = lane / 8 * 8;
    const std::uint32_t from = ptx::shared_address(raw + row * p.length), target = ptx::shared_address(to + row);
#pragma unroll 2
    for (int first = thread - lane; first < p.length; first += kPackers) {
      // Past the end, repeats the last elements.
      const int i = min(first + column, p.length - 8);
      std::uint32_t units[2][4];
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        ptx::load_matrices_transposed(units[group], from + 2 * (i + 8 * group * p.length));
      }
#pragma unroll
      for (int group = 0; group < 2; ++group) ptx::store_matrices(target + 16 * (i + group * p.length), units[group]);
    }
  }
}

/// Packs a stage from global memory, for sources that the copy engine cannot read. `channel`: the stage's first.
template <bool kSplit, class T>
__device__ __forceinline__ void pack_global(const PackedPlan& p, const PackedTile& tile, const T* source, int channel,
                                            uint4* to, int thread) {
  constexpr int kChannels = 16 / sizeof(T);
  const std::int64_t plane = static_cast<std::int64_t>(p.h.source) * p.w.source;
  const auto load = [&](int group, int i, T(&values)[kChannels]) {
    const LinePlace place = packed_place(p, tile, i);
    const int row = place.row + p.h.offset[0], column = place.column + p.first_column;
    const int first = channel + group * kChannels;
    const bool inside = place.sample < p.batch && static_cast<unsigned>(row) < static_cast<unsigned>(p.h.source) &&
                        static_cast<unsigned>(column) < static_cast<unsigned>(p.w.source);
    const T* from = source + ((place.sample * p.groups + tile.group) * p.source_channels + first) * plane +
                    static_cast<std::int64_t>(row) * p.w.source + column;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      values[c] = inside && first + c < p.source_channels ? from[c * plane] : from_float<T>(0.0F);
    }
  };
  pack_elements<kSplit, T>(p, load, to, thread);
}

/// A block's tiles: every gridDim'th.
__device__ __forceinline__ int first_tile() { return static_cast<int>(blockIdx.x); }
__device__ __forceinline__ int tile_step() { return static_cast<int>(gridDim.x); }

/// Packs the source of a block's tiles, stage by stage. `thread`: index among the packers.
template <bool kSplit, class T>
__device__ __forceinline__ void pack_sources(const PackedPlan& p, const Operands<T>& operands, const Shared& shared,
                                             int thread) {
  const int stages = p.stages(), tiles = static_cast<int>(p.blocks());
  Ring raw_ring, source_ring;
#pragma unroll 1
  for (int index = first_tile(); index < tiles; index += tile_step()) {
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      auto* const to = reinterpret_cast<uint4*>(shared.packed + source_ring.slot * p.stage_bytes());
      ptx::mbarrier_wait(shared.source_empty + 8 * source_ring.slot, source_ring.parity ^ 1);
      if (operands.vectors) {
        ptx::mbarrier_wait(shared.raw_full + 8 * raw_ring.slot, raw_ring.parity);
        pack_raw<kSplit>(p, reinterpret_cast<const T*>(shared.raw + raw_ring.slot * p.raw_bytes()), to, thread);
        ptx::mbarrier_arrive(shared.raw_empty + 8 * raw_ring.slot);
        raw_ring.advance(p.raw_stages);
      } else {
        pack_global<kSplit>(p, packed_tile(p, index), operands.source, i * p.stage_channels(), to, thread);
      }
      ptx::fence_async_proxy();
      ptx::mbarrier_arrive(shared.source_full + 8 * source_ring.slot);
      source_ring.advance(kPackedStages);
    }
  }
}

/// Starts the copies of the source of a block's tiles, stage by stage; one thread.
template <class T>
struct SourceCopies {
  const PackedPlan& p;
  const Operands<T>& operands;
  const Shared& shared;
  int index;      // of the tile
  int stage = 0;  // the next stage of the tile
  Ring raw_ring;

  __device__ __forceinline__ void copy_next() {
    if (index >= static_cast<int>(p.blocks())) return;
    const PackedTile tile = packed_tile(p, index);
    const std::uint32_t full = shared.raw_full + 8 * raw_ring.slot;
    ptx::mbarrier_wait(shared.raw_empty + 8 * raw_ring.slot, raw_ring.parity ^ 1);
    ptx::mbarrier_arrive_expect_bytes(full, p.raw_bytes());
    const int at[kTensorMapAxes] = {tile.column + p.first_column, tile.row + p.h.offset[0], tile.sample,
                                    stage * p.stage_channels(), static_cast<int>(tile.group)};
    ptx::tensor_copy(ptx::shared_address(shared.raw) + raw_ring.slot * p.raw_bytes(), &operands.map, at, full);
    raw_ring.advance(p.raw_stages);
    if (++stage < p.stages()) return;
    stage = 0;
    index += tile_step();
  }
};

/// Starts the copies of the operands of a block's tiles, the source raw_stages stages ahead; one thread.
template <class T>
__device__ __forceinline__ void copy_operands(const PackedPlan& p, const Operands<T>& operands, const Shared& shared) {
  const int stages = p.stages(), tiles = static_cast<int>(p.blocks());
  SourceCopies<T> sources{p, operands, shared, operands.vectors ? first_tile() : tiles};
  for (int i = 0; i < p.raw_stages; ++i) sources.copy_next();
  Ring filter_ring;
#pragma unroll 1
  for (int index = first_tile(); index < tiles; index += tile_step()) {
    const bool copies_filter = !p.filter_stays || index == first_tile();
    const uint4* filter = operands.packed + packed_tile(p, index).group * stages * p.products() * p.product_vectors();
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
#pragma unroll 1
      for (int h = 0; copies_filter && h < p.h.offsets; h += p.slot_rows) {
#pragma unroll 1
        for (int w = 0; w < p.row_products(); w += p.slot_columns) {
          const int products = min(p.slot_rows, p.h.offsets - h) * min(p.slot_columns, p.row_products() - w);
          const int vectors = products * p.product_vectors();
          const std::uint32_t full = shared.filter_full + 8 * filter_ring.slot;
          ptx::mbarrier_wait(shared.filter_empty + 8 * filter_ring.slot, filter_ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_bytes(full, 16 * vectors);
          ptx::bulk_copy(ptx::shared_address(shared.filter) + filter_ring.slot * 16 * p.slot_vectors(), filter,
                         16 * vectors, full);
          filter += vectors;
          filter_ring.advance(p.filter_slots);
        }
      }
      sources.copy_next();
    }
  }
}

/// Packs the filter in the order in which it passes through the slots: a block packs a product, a thread a row of a
/// group.
template <bool kSplit, class T>
__global__ void __launch_bounds__(2 * kPackedResults)
    pack_filter_kernel(const __grid_constant__ PackedPlan p, const T* filter, uint4* packed) {
  constexpr int kChannels = 16 / sizeof(T);
  const int block = static_cast<int>(blockIdx.x), product = block % p.products(), stage = block / p.products();
  const int offset_h = product / p.row_products(), offset_w = product % p.row_products() * p.stack;
  const int i = static_cast<int>(threadIdx.x), row = i % kPackedResults;
  const int m = p.row_result(row), stacked = p.row_stacked(row);
  const bool is_result = stacked < p.stack && m < p.group_results();
  const int place = is_result ? line::filter_place(p, m, offset_h, offset_w + stacked) : -1;
  const int channel = (stage % p.stages() * 2 + i / kPackedResults) * kChannels;
  filter += stage / p.stages() * p.filter_group;
  T values[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const bool exists = place >= 0 && channel + c < p.source_channels;
    values[c] = exists ? filter[(channel + c) * p.filter_source + place] : from_float<T>(0.0F);
  }
  uint4 units, tails;
  pack_vector<kSplit>(values, units, tails);
  packed += block * static_cast<std::int64_t>(p.product_vectors()) + i;
  *packed = units;
  if constexpr (kSplit) packed[2 * kPackedResults] = tails;
}

}  // namespace adjoint::cuda::packed

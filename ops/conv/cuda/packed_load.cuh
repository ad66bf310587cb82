// What the loading warps of the kernel for few columns and several taps do (packed_kernel.cuh), and the kernel that
// packs its filter beforehand.
#pragma once

#include <adjoint/ops/conv/packed_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/cuda/line.cuh>

#include <cstdint>
#include <cstring>

namespace adjoint::cuda::packed {

template <class T>
struct Operands : line::Operands<T> {
  const uint4* packed;  // the filter, as packed_plan.h says
};

/// Where a block's shared memory lies: tables, then operands, or in the end the results.
struct Shared {
  // Shared addresses of mbarriers, one a stage, or one a slot.
  std::uint32_t source_full, source_empty, filter_full, filter_empty;
  float* biases;  // [column]
  int* sources;   // [element of the line, or vector]: places in a source plane, from the tile's first sample on, or -1
  unsigned char* packed;   // stages
  unsigned char* raw;      // groups: [channel][element of the line]
  unsigned char* filters;  // slots
};

__device__ __forceinline__ Shared shared_of(const PackedPlan& p) {
  unsigned char* const smem = ptx::dynamic_smem();
  Shared shared;
  shared.source_full = ptx::shared_address(smem);
  shared.source_empty = shared.source_full + 8 * kPackedStages;
  shared.filter_full = shared.source_empty + 8 * kPackedStages;
  shared.filter_empty = shared.filter_full + 8 * kPackedFilterSlots;
  static_assert(16 * (kPackedStages + kPackedFilterSlots) <= 128);
  shared.biases = reinterpret_cast<float*>(smem + 128);
  shared.sources = reinterpret_cast<int*>(shared.biases + p.columns);
  shared.packed = smem + p.table_bytes();
  shared.raw = shared.packed + kPackedStages * p.stage_bytes();
  shared.filters = shared.raw + p.raw_groups * p.group_bytes();
  return shared;
}

/// Which of a ring's places is next, and the parity that its barriers then wait for.
struct Turn {
  int place = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance(int places) {
    if (++place < places) return;
    place = 0;
    parity ^= 1;
  }
};

/// Four units of one element of the line, rounded; of its tails where kSplit.
template <bool kSplit>
__device__ __forceinline__ void pack_units(const float (&values)[4], uint4& units, uint4& tails) {
  if constexpr (kSplit) {
    split_tf32(values[0], units.x, tails.x);
    split_tf32(values[1], units.y, tails.y);
    split_tf32(values[2], units.z, tails.z);
    split_tf32(values[3], units.w, tails.w);
  } else {
    units = make_uint4(ptx::round_to_tf32(values[0]), ptx::round_to_tf32(values[1]), ptx::round_to_tf32(values[2]),
                       ptx::round_to_tf32(values[3]));
  }
}
template <bool kSplit, class T>
__device__ __forceinline__ void pack_units(const T (&values)[8], uint4& units, uint4& /*tails*/) {
  memcpy(&units, values, sizeof(units));
}

/// Packs a group of the source: a thread takes one 32-bit word of each channel at a time, so that neither reads nor
/// writes of a warp meet in a bank, and reads some before it writes any. `to`, `tails`: of the group's first element.
template <bool kSplit, class T>
__device__ __forceinline__ void pack_group(const PackedPlan& p, const T* raw, uint4* to, uint4* tails, int thread) {
  constexpr int kChannels = 16 / sizeof(T), kElements = 4 / sizeof(T), kItems = 16 / kChannels;
  struct alignas(4) Word {
    T values[kElements];
  };
  const int words = p.length / kElements;
#pragma unroll 1
  for (int first = thread; first < words; first += kItems * kPackedLoaders) {
    Word values[kItems][kChannels];
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int i = min(first + item * kPackedLoaders, words - 1);
#pragma unroll
      for (int c = 0; c < kChannels; ++c) values[item][c] = reinterpret_cast<const Word*>(raw)[c * words + i];
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int i = first + item * kPackedLoaders;
      if (i >= words) break;
      uint4 units[kElements], unit_tails[kElements];
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        T element[kChannels];
#pragma unroll
        for (int c = 0; c < kChannels; ++c) element[c] = values[item][c].values[k];
        pack_units<kSplit>(element, units[k], unit_tails[k]);
      }
      if constexpr (kElements == 1) {
        to[i] = units[0];
        if constexpr (kSplit) tails[i] = unit_tails[0];
      } else {
        // Of eight threads that write at once, half begin with the second element.
        const int second = thread / 4 % 2;
        to[2 * i + second] = second != 0 ? units[1] : units[0];
        to[2 * i + 1 - second] = second != 0 ? units[0] : units[1];
      }
    }
  }
}

/// Copies the source as it lies in memory, raw_groups groups ahead, and packs it. `source`: of the group's first
/// channel, in the tile's first sample.
template <bool kSplit, class T>
__device__ __forceinline__ void stage_source(const PackedPlan& p, const T* source, bool vectors, const Shared& shared,
                                             int thread) {
  constexpr int kChannels = 16 / sizeof(T), kBarrier = 2;
  const int groups = 2 * p.stages();
  const std::int64_t group_elements = static_cast<std::int64_t>(kChannels) * p.h.source * p.w.source;
  int valid = p.source_channels, raw_place = 0;
  const auto raw_at = [&](int place) { return reinterpret_cast<T*>(shared.raw + place * p.group_bytes()); };
  const auto copy_group = [&](int place) {
    if (vectors) {
      line::stage_source<kPackedLoaders, kChannels>(p, source, valid, kChannels, shared.sources, raw_at(place), thread);
    } else {
      line::stage_source<kPackedLoaders, 1>(p, source, valid, kChannels, shared.sources, raw_at(place), thread);
    }
    source += group_elements;
    valid -= kChannels;
  };
  for (int i = 0; i < p.raw_groups; ++i) {
    copy_group(i);
    ptx::cp_async_commit();
  }
  Turn turn;
#pragma unroll 1
  for (int group = 0; group < groups; ++group) {
    ptx::cp_async_wait_at_most(p.raw_groups - 1);
    ptx::barrier<kPackedLoaders>(kBarrier);
    if (group % 2 == 0) ptx::mbarrier_wait(shared.source_empty + 8 * turn.place, turn.parity ^ 1);
    auto* const to = reinterpret_cast<uint4*>(shared.packed + turn.place * p.stage_bytes()) + group % 2 * p.length;
    pack_group<kSplit>(p, raw_at(raw_place), to, to + 2 * p.length, thread);
    if (group % 2 != 0) {
      ptx::fence_async_proxy();
      ptx::mbarrier_arrive(shared.source_full + 8 * turn.place);
      turn.advance(kPackedStages);
    }
    ptx::barrier<kPackedLoaders>(kBarrier);
    if (group + p.raw_groups < groups) copy_group(raw_place);
    ptx::cp_async_commit();
    raw_place = raw_place + 1 < p.raw_groups ? raw_place + 1 : 0;
  }
}

/// Passes a group's filter through the slots; one thread.
__device__ __forceinline__ void stream_filter(const PackedPlan& p, const uint4* filter, const Shared& shared) {
  const int slots = p.stages() * p.stage_slots(), vectors = p.slot_vectors();
  Turn turn;
#pragma unroll 1
  for (int i = 0; i < slots; ++i, filter += vectors) {
    const std::uint32_t full = shared.filter_full + 8 * turn.place;
    ptx::mbarrier_wait(shared.filter_empty + 8 * turn.place, turn.parity ^ 1);
    ptx::mbarrier_arrive_expect_bytes(full, 16 * vectors);
    ptx::bulk_copy(ptx::shared_address(shared.filters) + turn.place * 16 * vectors, filter, 16 * vectors, full);
    turn.advance(kPackedFilterSlots);
  }
}

/// The filter as it passes through the slots: a block a slot.
template <bool kSplit, class T>
__global__ void __launch_bounds__(kPackedThreads)
    pack_filter_kernel(const __grid_constant__ PackedPlan p, const T* filter, uint4* packed) {
  constexpr int kChannels = 16 / sizeof(T);
  int slot = static_cast<int>(blockIdx.x);
  packed += slot * static_cast<std::int64_t>(p.slot_vectors());
  const int first_product = slot % p.row_slots * p.slot_products;
  slot /= p.row_slots;
  const int offset_h = slot % p.h.offsets;
  slot /= p.h.offsets;
  const int stage = slot % p.stages();
  filter += slot / p.stages() * p.filter_group;
  for (int i = static_cast<int>(threadIdx.x); i < p.part_vectors(); i += kPackedThreads) {
    const int column = i % p.columns, group = i / p.columns % 2, product = first_product + i / p.columns / 2;
    const int m = column % p.group_results(), of_product = column / p.group_results();
    const bool exists = of_product < p.stack && product < p.row_products();
    const int place = exists ? line::filter_place(p, m, offset_h, product * p.stack + of_product) : -1;
    const int channel = (2 * stage + group) * kChannels;
    T values[kChannels];
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const bool is_source = place >= 0 && channel + c < p.source_channels;
      values[c] = is_source ? filter[(channel + c) * p.filter_source + place] : from_float<T>(0.0F);
    }
    uint4 units, tails;
    pack_units<kSplit>(values, units, tails);
    packed[i] = units;
    if constexpr (kSplit) packed[p.part_vectors() + i] = tails;
  }
}

}  // namespace adjoint::cuda::packed

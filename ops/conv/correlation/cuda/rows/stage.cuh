// Stages the input of the tensor-core kernel of conv and conv_transpose: three warps copy raw rows into a ring of
// stages with a full and an empty mbarrier each.
//
// All reads of the input are asynchronous copies, so that all free stages are in flight. Floats land where they are
// read. Halves of two channels share a unit: pieces of both rows land in the places of the units that they become, and
// after they arrive, the thread that requested them interleaves them in place.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/correlation/cuda/layout.cuh>
#include <adjoint/ops/conv/correlation/cuda/rows/interleave.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::correlation {

inline constexpr int kLoaderThreads = 96;
/// The source and destination of one copy of a run of a channel's row; the same for every channel of a pass.
struct StageItem {
  std::int32_t source;  // elements from the plane's start; -1 for zeros
  // Units from the stage's channel; a bit that marks a word whose second half is in the next column's first plane; 6
  // bits of the image's number in the tile.
  std::int32_t destination;

  __device__ __forceinline__ int image() const { return destination & 63; }
  __device__ __forceinline__ bool wraps() const { return (destination & 64) != 0; }
  __device__ __forceinline__ int unit() const { return destination >> 7; }
};

/// The places of the units of steps that gather: byte offsets into a stage, [step][unit % 4][unit / 4]; 1 for the zeros
/// that follow the last, because products with arbitrary staged values would be NaN if those are infinite.
__device__ __forceinline__ void fill_gather(const CorrelationPlan& p, SharedLayout& layout, unsigned char* table) {
  auto* offsets = reinterpret_cast<std::uint32_t*>(table);
  int steps = 0;
  for (int i = 0; i < p.classes; ++i) {
    const CorrelationClass& c = p.class_list[i];
    for (int j = c.first_pass; j < c.first_pass + c.passes; ++j) {
      const CorrelationPass& pass = p.passes[j];
      steps = pass.end_step;
      const int end = kChunkUnits * pass.end_step;
      for (int k = kChunkUnits * pass.first_step + static_cast<int>(threadIdx.x); k < end;
           k += static_cast<int>(blockDim.x)) {
        const int place = k % kChunkUnits;
        const CorrelationUnit unit = correlation_unit(p, pass, k / kChunkUnits, place % 4 * 4 + place / 4);
        offsets[k] = unit.tap < 0
                         ? 1
                         : static_cast<std::uint32_t>(4 * (p.taps[unit.tap].x_offset + unit.channel * p.unit_pitch));
      }
    }
  }
  layout.zeros = layout.gather + 4 * kChunkUnits * steps;
  const int words = correlation_gather_bytes(p) / 4;
  for (int k = kChunkUnits * steps + static_cast<int>(threadIdx.x); k < words; k += static_cast<int>(blockDim.x))
    offsets[k] = 0;
}

/// One loader thread. kBytes of a row in one copy; kStrided: conv, whose rows are split by position modulo stride.
template <bool kHalf, int kBytes, bool kStrided, bool kGathers>
class Stager {
  using Element = std::conditional_t<kHalf, std::uint16_t, float>;
  // Halves of any alignment: a copy moves the word that holds one, and the second channel's words go to a separate
  // stage, as many stages behind as there are stages.
  static constexpr bool kSingle = kBytes == 2;
  static constexpr int kWords = kSingle ? 1 : kBytes / 4;
  static constexpr int kItemUnits = kSingle ? 1 : kWords * (kHalf ? 2 : 1);
  static constexpr int kChannels = kHalf ? 2 : 1;  // per unit
  static constexpr bool kBoxed = !kHalf;           // true if plans may be boxed
  // Units of an item that a thread handles together; if items are single elements, there are enough of them.
  static constexpr int kUnits = kGathers ? 1 : kHalf ? 2 : kStrided ? 8 : 4;

  const CorrelationPlan& p_;
  const SharedLayout& layout_;
  unsigned char* const smem_;
  const std::uint32_t smem_base_;
  const int thread_;
  const Element* const tensor_;
  const std::int64_t plane_;    // elements
  const Element* x_ = nullptr;  // the tile's first image and group
  int planes_ = 0;
  int count_ = 0;                           // items
  int first_item_ = 0, first_group_ = 0;    // of this thread
  int item_stride_ = 0, group_stride_ = 0;  // to its next one
  int under_way_ = 0;                       // stages requested and not yet interleaved
  Ring ring_;

 public:
  __device__ __forceinline__ Stager(const CorrelationPlan& plan, const CorrelationOperands& operands,
                                    const SharedLayout& layout, int thread)
      : p_(plan),
        layout_(layout),
        smem_(ptx::dynamic_smem()),
        smem_base_(ptx::shared_address(smem_)),
        thread_(thread),
        tensor_(static_cast<const Element*>(operands.x)),
        plane_(static_cast<std::int64_t>(plan.in_h) * plan.in_w) {}

  __device__ __forceinline__ void run() {
    const int tiles = static_cast<int>(p_.tiles());
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
      const CorrelationWork work = correlation_work(p_, tile);
      if constexpr (kSingle) finish_all();  // uses the last tile's x_
      x_ = tensor_ + work.n * sample() + work.group * (p_.k_channels * plane_);
      const CorrelationClass& c = p_.class_list[work.class_index];
      for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
        begin_pass(p_.passes[i], work);
        for (int chunk = 0; chunk < p_.chunks; ++chunk) stage(chunk);
      }
    }
    finish_all();
  }

 private:
  // From constant memory if registers are scarce.
  __device__ __forceinline__ std::int64_t sample() const { return plane_ * (p_.k_channels * p_.groups); }
  __device__ __forceinline__ int plane_units() const {
    return p_.rows * p_.cols << (kBoxed ? p_.log2_stage_n() : p_.log2_tile_n);
  }
  __device__ __forceinline__ int units() const { return kGathers ? p_.stage_units : kChunkUnits; }
  __device__ __forceinline__ int stage_bytes() const { return 4 * p_.stage_size; }
  __device__ __forceinline__ StageItem* items() const {
    return reinterpret_cast<StageItem*>(smem_ + (layout_.items - smem_base_));
  }

  /// Stages in flight use only the table's places, which follow from the number of planes; single halves use more.
  __device__ __forceinline__ void begin_pass(const CorrelationPass& pass, const CorrelationWork& work) {
    if (kSingle || pass.planes != planes_) finish_all();
    planes_ = pass.planes;
    count_ = (planes_ * plane_units() * (kBoxed ? p_.boxes : 1)) / kItemUnits;
    first_item_ = thread_ % count_;
    first_group_ = thread_ / count_;
    item_stride_ = kLoaderThreads % count_;
    group_stride_ = kLoaderThreads / count_;
    ptx::barrier<kLoaderThreads>(15);
    for (int item = thread_; item < count_; item += kLoaderThreads) {
      items()[item] = make_item(pass, work, static_cast<unsigned>(item));
    }
    ptx::barrier<kLoaderThreads>(15);
  }

  __device__ __forceinline__ StageItem make_item(const CorrelationPass& pass, const CorrelationWork& work,
                                                 unsigned item) const {
    const unsigned planes = static_cast<unsigned>(pass.planes);
    unsigned residue = 0, place = item * kItemUnits;  // within the plane
    if constexpr (kStrided && kHalf && kBytes == 16) {
      place = item * kWords;
    } else if constexpr (kStrided && kHalf && kBytes == 4) {
      const unsigned words = planes % 2 == 0 ? planes / 2 : planes;
      residue = item % words * 2;
      place = item / words * (planes % 2 + 1);
      if (residue >= planes) {
        residue -= planes;
        ++place;
      }
    } else if constexpr (kStrided) {
      residue = item % planes;
      place = item / planes;
    }
    // Registers are scarce, so only if there may be boxes.
    unsigned box = 0;
    CorrelationPosition first{0, 0, 0};
    if constexpr (kBoxed) {
      if (p_.boxes > 1) box = place / static_cast<unsigned>(plane_units());
      place -= box * plane_units();
      first = correlation_position(p_, static_cast<int>(box) << p_.log2_box);
    }
    auto col = static_cast<std::int32_t>(place);
    std::int32_t row = p_.col_divider.split(col);
    const std::int32_t n = first.n + p_.row_divider.split(row);
    const std::int64_t h =
        static_cast<std::int64_t>(work.h + first.h + row + pass.h_base) * p_.in_stride_h + pass.h_residue;
    const std::int64_t w = static_cast<std::int64_t>(work.w + first.w) * p_.in_stride_w +
                           static_cast<std::int64_t>(col + pass.w_base) * (p_.boxed ? 1 : p_.in_stride_w) +
                           pass.first_plane + static_cast<int>(residue);
    const bool valid = work.n + n < p_.batch && h >= 0 && h < p_.in_h && w >= 0 && w < p_.in_w;
    const int unit =
        static_cast<int>(box) * p_.box_units + static_cast<int>(residue) * plane_units() + static_cast<int>(place);
    return {valid ? static_cast<std::int32_t>(h * p_.in_w + w) : -1, unit << 7 | (residue + 1 == planes ? 64 : 0) | n};
  }

  /// Calls body(item, unit) for this thread's share of all items of all units, kUnits from `unit` on.
  template <class Body>
  __device__ __forceinline__ void for_share(const Body& body) const {
    int item = first_item_;
#pragma unroll 1
    for (int group = first_group_; group * kUnits < units();) {
      body(item, group * kUnits);
      item += item_stride_;
      group += group_stride_;
      if (item >= count_) {
        item -= count_;
        ++group;
      }
    }
  }

  __device__ __forceinline__ void stage(int chunk) {
    const std::uint32_t empty = layout_.x_empty + 8 * ring_.slot;
    if constexpr (kHalf) {
      while (under_way_ > 0 && !__all_sync(0xffffffffU, ptx::mbarrier_test(empty, ring_.parity ^ 1))) finish_oldest();
    }
    ptx::mbarrier_wait(empty, ring_.parity ^ 1);
    const std::uint32_t to = layout_.x + ring_.slot * stage_bytes();
    const int channel = chunk * kChunkUnits * kChannels;
    const Element* const x = x_ + channel * plane_;
    for_share([&](int item, int unit) { copy(x, p_.k_channels - channel, item, unit, to + 4 * unit * p_.unit_pitch); });
    if constexpr (kHalf) {
      ptx::cp_async_commit();
      ++under_way_;
    } else {
      ptx::mbarrier_arrive_after_cp_async(layout_.x_full + 8 * ring_.slot);
    }
    ring_.advance(layout_.x_stages);
  }

  __device__ __forceinline__ void finish_all() {
    while (under_way_ > 0) finish_oldest();
  }

  __device__ __forceinline__ void finish_oldest() {
    if constexpr (kHalf) {
      int slot = ring_.slot - under_way_;
      slot += slot < 0 ? layout_.x_stages : 0;
      ptx::cp_async_wait_at_most(--under_way_);
      auto* from = reinterpret_cast<std::uint32_t*>(smem_ + (layout_.x + slot * stage_bytes() - smem_base_));
      for_share([&](int item, int unit) { interleave(item, from + unit * p_.unit_pitch); });
      ptx::mbarrier_arrive(layout_.x_full + 8 * slot);
    }
  }

  /// Units from the stage's channel to the places of an item's first and second channel before interleaving.
  __device__ __forceinline__ int2 places(int item) const {
    if constexpr (kSingle) {
      const int unit = items()[item].unit();
      return make_int2(unit, unit + layout_.x_stages * (stage_bytes() / 4));
    } else if constexpr (kStrided) {
      const StageItem it = items()[item];
      const int second = it.wraps() ? 1 - (p_.in_stride_w - 1) * plane_units() : plane_units();
      return make_int2(it.unit(), it.unit() + second);
    } else {
      const int swap = swapped(item) ? kWords : 0;
      return make_int2(item * kItemUnits + swap, item * kItemUnits + kWords - swap);
    }
  }

  /// Every second four vectors are swapped, so that eight lanes' vectors use all banks.
  __device__ __forceinline__ static bool swapped(int item) { return !kStrided && kWords == 4 && (item & 4) != 0; }

  /// Units from `unit` on; `x` is the chunk's first plane, and `channels` of its channels exist.
  __device__ __forceinline__ void copy(const Element* x, int channels, int item, int unit, std::uint32_t to) const {
    const StageItem it = items()[item];
    // Aligned even if nothing is read from it.
    const Element* from = x + unit * kChannels * plane_ + max(it.source, 0);
    if (p_.log2_tile_n > 0) from += it.image() * sample();
    const int2 place = kHalf ? places(item) : make_int2(it.unit(), 0);
    const std::uint32_t first = to + 4 * place.x, second = to + 4 * place.y;
    const int valid = it.source >= 0 ? channels - unit * kChannels : 0;
    // Nearly always true, and needs half the instructions.
    if (!kSingle && valid >= kUnits * kChannels) {
      copy_units(first, second, from, [](int) { return true; });
    } else {
      copy_units(first, second, from, [valid](int i) { return i < valid; });
    }
  }

  template <class Valid>
  __device__ __forceinline__ void copy_units(std::uint32_t first, std::uint32_t second, const Element* from,
                                             const Valid& valid) const {
#pragma unroll
    for (int i = 0; i < kUnits * kChannels; ++i) {
      copy_piece((i % kChannels == 0 ? first : second) + i / kChannels * 4 * p_.unit_pitch, from + i * plane_,
                 valid(i));
    }
  }

  __device__ __forceinline__ void copy_piece(std::uint32_t to, const Element* from, bool valid) const {
    if constexpr (!kSingle) {
      ptx::cp_async_zfill<kBytes>(to, from, valid);
    } else {
      // Never reads a byte outside the tensor, though words may extend over its ends.
      const Element* const word = from - half_of_word(from);
      if (valid && word < tensor_) {
        *reinterpret_cast<std::uint32_t*>(smem_ + (to - smem_base_)) = static_cast<std::uint32_t>(*from) << 16;
      } else {
        const bool last = word + 1 == tensor_ + p_.batch * sample();
        ptx::cp_async_partial<4>(to, valid ? word : tensor_ + half_of_word(tensor_), valid ? last ? 2 : 4 : 0);
      }
    }
  }

  __device__ __forceinline__ static int half_of_word(const Element* from) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(from) / 2 & 1);
  }

  __device__ __forceinline__ void interleave(int item, std::uint32_t* to) const {
    const int2 place = places(item);
    if constexpr (kSingle) {
      const StageItem it = items()[item];
      const Element* const from = x_ + it.image() * sample() + it.source;
      const auto first = static_cast<unsigned>(half_of_word(from));
      const auto second = static_cast<unsigned>(half_of_word(from + plane_));
#pragma unroll
      for (int i = 0; i < kUnits; ++i, to += p_.unit_pitch) {
        to[place.x] = __byte_perm(to[place.x], to[place.y], 0x5410 + 0x22 * first + 0x2200 * second);
      }
    } else {
      HalfPair<kWords, kStrided> pairs[kUnits];
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        pairs[i].read(to + i * p_.unit_pitch + place.x, to + i * p_.unit_pitch + place.y);
      }
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        pairs[i].write(to + i * p_.unit_pitch + place.x, to + i * p_.unit_pitch + place.y, swapped(item));
      }
    }
  }
};

/// The loader warps: stage every tile's input, in the order of the block's tiles.
template <bool kHalf, bool kGathers>
__device__ __forceinline__ void stage_input(const CorrelationPlan& plan, const CorrelationOperands& operands,
                                            const SharedLayout& layout, int thread) {
  const auto run = [&]<int kBytes, bool kStrided>() {
    Stager<kHalf, kBytes, kStrided, kGathers>(plan, operands, layout, thread).run();
  };
  const bool strided = plan.in_stride_w != 1;
  if constexpr (kHalf) {
    if (operands.load_bytes == 2) return run.template operator()<2, true>();
    if (operands.load_bytes == 4)
      return strided ? run.template operator()<4, true>() : run.template operator()<4, false>();
    if (operands.load_bytes == 8) return run.template operator()<8, false>();
    return strided ? run.template operator()<16, true>() : run.template operator()<16, false>();
  } else {
    if (operands.load_bytes == 4) return run.template operator()<4, true>();
    if (operands.load_bytes == 8) return run.template operator()<8, false>();
    return run.template operator()<16, false>();
  }
}

}  // namespace adjoint::cuda::correlation

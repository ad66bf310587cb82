// Fills the shared memory of the mma.sync kernel of conv and conv_transpose: all its threads copy asynchronously, a few
// steps ahead of the products. Halves are staged in memory order, [channel][position], and paired when read.
#pragma once

#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::correlation_mma {

/// The source and destination of a vector of a row of a stage; the same for every channel of a pass.
struct Item {
  std::int32_t source;       // elements from the start of its image's channel; -1 for zeros
  std::int32_t destination;  // elements from the stage's channel, shifted left by 6 bits that hold the image's number
                             // in the tile
};

template <int kVector>
__device__ __forceinline__ Item make_item(const CorrelationPlan& p, const CorrelationPass& pass,
                                          const CorrelationWork& work, unsigned index) {
  const unsigned vectors = static_cast<unsigned>(p.cols) / kVector;
  const unsigned planes = kVector == 1 ? static_cast<unsigned>(pass.planes) : 1;  // neighbours belong to several planes
  const int plane = static_cast<int>(index % planes);
  const unsigned line = index / planes / vectors;
  const int col = static_cast<int>(index / planes - line * vectors) * kVector;
  const int n = static_cast<int>(line / static_cast<unsigned>(p.rows));
  const int row = static_cast<int>(line) - n * p.rows;
  const std::int64_t h = static_cast<std::int64_t>(work.h + row + pass.h_base) * p.in_stride_h + pass.h_residue;
  const std::int64_t w =
      static_cast<std::int64_t>(work.w + col + pass.w_base) * p.in_stride_w + pass.first_plane + plane;
  const bool valid = work.n + n < p.batch && h >= 0 && h < p.in_h && w >= 0 && w < p.in_w;
  const int place = ((plane << p.log2_tile_n) * p.rows + static_cast<int>(line)) * p.cols + col;
  return {valid ? static_cast<std::int32_t>(h * p.in_w + w) : -1, place << 6 | n};
}

/// The launch's additions to the plan.
struct LoadOptions {
  std::int32_t vector;  // mma_load_vector()
  std::int32_t ahead;   // correlation_steps_ahead()
};

/// The parts of dynamic shared memory (correlation_mma_smem) that are loaded.
struct SharedLayout {
  unsigned char* smem;
  std::uint32_t base, w, x;  // shared-memory addresses
  Item* items;
};

/// kCount neighbouring elements of kCount channels' rows, `step` channels apart: asynchronously, or through registers
/// if a copy would have two bytes.
template <int kCount, int kVector, class Element>
__device__ __forceinline__ void copy_channels(const SharedLayout& shared, std::uint32_t to, std::uint32_t to_step,
                                              const Element* from, std::int64_t from_step, int valid,
                                              const void* anything) {
  constexpr int kBytes = kVector * static_cast<int>(sizeof(Element));
  if constexpr (kBytes >= 4) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      ptx::cp_async_zfill<kBytes>(to + i * to_step, i < valid ? from + i * from_step : anything, i < valid);
    }
  } else {
    Element values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = i < valid ? __ldg(from + i * from_step) : Element{0};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      *reinterpret_cast<Element*>(shared.smem + (to + i * to_step - shared.base)) = values[i];
    }
  }
}

/// A block's loop over its tiles, passes, chunks and steps, at the position of its loads.
template <bool kHalf, int kWarps>
class Loader {
 public:
  __device__ __forceinline__ Loader(const CorrelationPlan& plan, const CorrelationOperands& operands,
                                    const SharedLayout& shared, int vector)
      : p_(plan), operands_(operands), shared_(shared), vector_(vector), tile_(static_cast<int>(blockIdx.x)) {
    begin_tile();
  }

  /// Starts the copies of the next step, if there is one, as a group; called by every thread after a __syncthreads()
  /// after which their destinations are not read.
  __device__ __forceinline__ void load_step() {
    if (tile_ < static_cast<int>(p_.tiles())) {
      const CorrelationPass& pass = p_.passes[pass_];
      if (step_ == pass.first_step) load_stage(pass);
      if (!p_.weights_resident || tile_ == static_cast<int>(blockIdx.x)) load_filter_block();
      w_slot_ = w_slot_ + 1 == p_.w_slots ? 0 : w_slot_ + 1;
      advance(pass);
    }
    ptx::cp_async_commit();
  }

 private:
  using Element = std::conditional_t<kHalf, std::uint16_t, float>;
  static constexpr int kSize = static_cast<int>(sizeof(Element));
  static constexpr int kChannels = kChunkUnits * (kHalf ? 2 : 1);

  /// The tile itself or the next one that has steps.
  __device__ __forceinline__ void begin_tile() {
    for (; tile_ < static_cast<int>(p_.tiles()); tile_ += static_cast<int>(gridDim.x)) {
      work_ = correlation_work(p_, tile_);
      const CorrelationClass& c = p_.class_list[work_.class_index];
      if (c.passes == 0) continue;
      pass_ = c.first_pass;
      end_pass_ = c.first_pass + c.passes;
      chunk_ = 0;
      step_ = p_.passes[pass_].first_step;
      block_ = static_cast<const unsigned char*>(operands_.filter_blocks) + work_.first_half * (2 * p_.w_block_units);
      return;
    }
  }

  __device__ __forceinline__ void advance(const CorrelationPass& pass) {
    if (++step_ < pass.end_step) return;
    step_ = pass.first_step;
    if (++chunk_ < p_.chunks) return;
    chunk_ = 0;
    if (++pass_ < end_pass_) {
      step_ = p_.passes[pass_].first_step;
      return;
    }
    tile_ += static_cast<int>(gridDim.x);
    begin_tile();
  }

  __device__ __forceinline__ void load_filter_block() {
    const int bytes = 2 * p_.w_block_units * p_.steps[step_].halves();
    const std::uint32_t to = shared_.w + 4 * w_slot_ * p_.w_block_units;
    for (int i = 16 * static_cast<int>(threadIdx.x); i < bytes; i += 16 * 32 * kWarps) {
      ptx::cp_async_zfill<16>(to + i, block_ + i, true);
    }
    block_ += bytes;
  }

  __device__ __forceinline__ void load_stage(const CorrelationPass& pass) {
    constexpr int kWide = 16 / kSize;
    if (vector_ == kWide) {
      load_vectors<kWide>(pass);
    } else if (vector_ == 2) {
      load_vectors<2>(pass);
    } else {
      load_vectors<1>(pass);
    }
    x_slot_ = x_slot_ + 1 == p_.x_stages ? 0 : x_slot_ + 1;
  }

  /// A warp copies every kWarps-th channel; its lanes loop over the vectors of a channel's stage.
  template <int kVector>
  __device__ __forceinline__ void load_vectors(const CorrelationPass& pass) {
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
    const int count = (pass.planes * p_.rows * (p_.cols / kVector)) << p_.log2_tile_n;
    if (chunk_ == 0) {
      for (int i = thread; i < count; i += 32 * kWarps) {
        shared_.items[i] = make_item<kVector>(p_, pass, work_, static_cast<unsigned>(i));
      }
      __syncthreads();
    }
    const std::int64_t plane = static_cast<std::int64_t>(p_.in_h) * p_.in_w;
    const std::int64_t sample = plane * p_.k_channels * p_.groups;
    const std::int64_t channel =
        (work_.n * p_.groups + work_.group) * p_.k_channels + static_cast<std::int64_t>(chunk_) * kChannels + warp;
    const Element* first = static_cast<const Element*>(operands_.x) + channel * plane;
    const int channels = p_.k_channels - chunk_ * kChannels - warp;
    const int valid_channels = channels <= 0 ? 0 : (channels + kWarps - 1) / kWarps;
    const std::uint32_t stage = shared_.x + (x_slot_ * kChannels + warp) * kSize * p_.unit_pitch;
#pragma unroll 1
    for (int item = thread % 32; item < count; item += 32) {
      const Item place = shared_.items[item];
      copy_channels<kChannels / kWarps, kVector>(shared_, stage + kSize * (place.destination >> 6),
                                                 kWarps * kSize * p_.unit_pitch,
                                                 first + (place.destination & 63) * sample + place.source,
                                                 kWarps * plane, place.source >= 0 ? valid_channels : 0, operands_.x);
    }
  }

  const CorrelationPlan& p_;
  const CorrelationOperands& operands_;
  const SharedLayout& shared_;
  const int vector_;
  CorrelationWork work_;
  const unsigned char* block_ = nullptr;
  int tile_;
  int pass_ = 0, end_pass_ = 0, chunk_ = 0, step_ = 0;
  int x_slot_ = 0, w_slot_ = 0;
};

}  // namespace adjoint::cuda::correlation_mma

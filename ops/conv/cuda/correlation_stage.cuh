// How the tensor-core kernel of conv and conv_transpose stages its input: three warps copy raw rows into a ring of
// stages with a full and an empty mbarrier each.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::correlation {

inline constexpr int kLoaderWarps = 3;
inline constexpr int kMaxStages = kMaxCorrelationStages, kMaxSlots = kMaxCorrelationSlots;

struct Ring {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

struct SharedLayout {
  std::uint32_t x_full, x_empty, w_full, w_empty, x, w;  // shared-memory addresses
};

/// Where an item of a stage (a vector of a row) comes from and goes to; the same for every channel of a pass.
struct StageItem {
  std::int32_t source;  // elements from the plane's first
  // Units from the stage's channel, over 6 bits of the image's number in the tile; -1 - that for zeros.
  std::int32_t destination;
};

template <int kVector>
__device__ __forceinline__ StageItem stage_item(const CorrelationPlan& p, const CorrelationPass& pass,
                                                const CorrelationWork& work, unsigned item) {
  const unsigned vectors = static_cast<unsigned>(p.cols) / kVector;
  unsigned plane = 0;
  if (kVector == 1 && pass.planes > 1) {
    plane = item % static_cast<unsigned>(pass.planes);
    item /= static_cast<unsigned>(pass.planes);
  }
  const unsigned line = item / vectors;
  const int col = static_cast<int>(item - line * vectors) * kVector;
  const int n = static_cast<int>(line / static_cast<unsigned>(p.rows));
  const int row = static_cast<int>(line) - n * p.rows;
  const std::int64_t in_h = static_cast<std::int64_t>(work.h + row + pass.h_base) * p.in_stride_h + pass.h_residue;
  const std::int64_t in_w = static_cast<std::int64_t>(work.w + col + pass.w_base) * p.in_stride_w + pass.first_plane +
                            static_cast<int>(plane);
  const bool valid = work.n + n < p.batch && in_h >= 0 && in_h < p.in_h && in_w >= 0 && in_w < p.in_w;
  const int place = ((static_cast<int>(plane) << p.log2_tile_n) * p.rows + static_cast<int>(line)) * p.cols + col;
  const int packed = place << 6 | n;
  return valid ? StageItem{static_cast<std::int32_t>(in_h * p.in_w + in_w), packed} : StageItem{0, -1 - packed};
}

__device__ __forceinline__ int stage_items(const CorrelationPlan& p, const CorrelationPass& pass, int vector) {
  return (pass.planes * p.rows * (p.cols / vector)) << p.log2_tile_n;
}

/// The loader warps together; between two barriers of theirs.
template <int kVector>
__device__ __forceinline__ void fill_items(const CorrelationPlan& p, const CorrelationPass& pass,
                                           const CorrelationWork& work, StageItem* items, int thread) {
  const int count = stage_items(p, pass, kVector);
  for (int item = thread; item < count; item += 32 * kLoaderWarps) {
    items[item] = stage_item<kVector>(p, pass, work, static_cast<unsigned>(item));
  }
}

/// An item read back from the table: channel 0 of the group, of the right image.
struct ItemPlace {
  std::int64_t source;
  int destination;
  bool valid;
};

__device__ __forceinline__ ItemPlace item_place(StageItem item, std::int64_t sample) {
  const bool valid = item.destination >= 0;
  const int packed = valid ? item.destination : -1 - item.destination;
  return {item.source + (packed & 63) * sample, packed >> 6, valid};
}

/// One channel a unit: asynchronous copies of kVector floats. `x` points to the tile's first image and group.
template <int kVector>
__device__ __forceinline__ void load_stage_words(const CorrelationPlan& p, const StageItem* items, int count, int chunk,
                                                 const float* x, std::uint32_t stage, int warp, int lane) {
  const std::int64_t plane = static_cast<std::int64_t>(p.in_h) * p.in_w;
  const std::int64_t sample = plane * p.k_channels * p.groups;
  const float* first = x + (chunk * kChunkUnits + warp) * plane;
  const int channels = p.k_channels - chunk * kChunkUnits;
#pragma unroll 1
  for (int item = lane; item < count; item += 32) {
    const ItemPlace place = item_place(items[item], sample);
    const float* source = first + place.source;
    std::uint32_t to = stage + 4 * (warp * p.unit_pitch + place.destination);
#pragma unroll
    for (int i = 0; i < (kChunkUnits + kLoaderWarps - 1) / kLoaderWarps; ++i) {
      const int c = warp + i * kLoaderWarps;
      if (c < kChunkUnits) {
        const bool valid = place.valid && c < channels;
        ptx::cp_async_zfill<4 * kVector>(to, valid ? source : x, valid);
      }
      source += kLoaderWarps * plane;
      to += 4 * kLoaderWarps * p.unit_pitch;
    }
  }
}

/// Two channels a unit: kVector halves of each, interleaved on the way.
template <int kVector>
__device__ __forceinline__ void load_stage_pairs(const CorrelationPlan& p, const StageItem* items, int count, int chunk,
                                                 const std::uint16_t* x, std::uint32_t* stage, int warp, int lane) {
  const std::int64_t plane = static_cast<std::int64_t>(p.in_h) * p.in_w;
  const std::int64_t sample = plane * p.k_channels * p.groups;
#pragma unroll 1
  for (int item = lane; item < count; item += 32) {
    const ItemPlace place = item_place(items[item], sample);
#pragma unroll(kVector == 8 ? 2 : 3)
    for (int i = 0; i < (kChunkUnits + kLoaderWarps - 1) / kLoaderWarps; ++i) {
      const int u = warp + i * kLoaderWarps;
      if (u >= kChunkUnits) break;
      const int channel = (chunk * kChunkUnits + u) * 2;
      const bool valid0 = place.valid && channel < p.k_channels;
      const bool valid1 = place.valid && channel + 1 < p.k_channels;
      const std::uint16_t* from0 = x + place.source + channel * plane;
      const std::uint16_t* from1 = from0 + plane;
      std::uint32_t* to = stage + u * p.unit_pitch + place.destination;
      if constexpr (kVector == 8) {
        const uint4 zero = make_uint4(0, 0, 0, 0);
        const uint4 a = valid0 ? __ldg(reinterpret_cast<const uint4*>(from0)) : zero;
        const uint4 b = valid1 ? __ldg(reinterpret_cast<const uint4*>(from1)) : zero;
        reinterpret_cast<uint4*>(to)[0] = make_uint4(__byte_perm(a.x, b.x, 0x5410), __byte_perm(a.x, b.x, 0x7632),
                                                     __byte_perm(a.y, b.y, 0x5410), __byte_perm(a.y, b.y, 0x7632));
        reinterpret_cast<uint4*>(to)[1] = make_uint4(__byte_perm(a.z, b.z, 0x5410), __byte_perm(a.z, b.z, 0x7632),
                                                     __byte_perm(a.w, b.w, 0x5410), __byte_perm(a.w, b.w, 0x7632));
      } else if constexpr (kVector == 2) {
        const std::uint32_t a = valid0 ? __ldg(reinterpret_cast<const std::uint32_t*>(from0)) : 0;
        const std::uint32_t b = valid1 ? __ldg(reinterpret_cast<const std::uint32_t*>(from1)) : 0;
        *reinterpret_cast<uint2*>(to) = make_uint2(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
      } else {
        const std::uint32_t a = valid0 ? __ldg(from0) : 0;
        const std::uint32_t b = valid1 ? __ldg(from1) : 0;
        *to = a | b << 16;
      }
    }
  }
}

template <bool kHalf, int kVector>
__device__ __forceinline__ void stage_input(const CorrelationPlan& p, const CorrelationOperands& operands,
                                            const SharedLayout& layout, unsigned char* smem, std::uint32_t smem_base,
                                            StageItem* items, int warp, int lane) {
  using Element = std::conditional_t<kHalf, std::uint16_t, float>;
  Ring ring;
  const std::uint32_t stage_bytes = 4 * kChunkUnits * p.unit_pitch;
  const std::int64_t plane = static_cast<std::int64_t>(p.in_h) * p.in_w;
  const int tiles = static_cast<int>(p.tiles());
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const CorrelationWork work = correlation_work(p, tile);
    const Element* x =
        static_cast<const Element*>(operands.x) + (work.n * p.groups + work.group) * p.k_channels * plane;
    const CorrelationClass& c = p.class_list[work.class_index];
    for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) {
      const CorrelationPass& pass = p.passes[i];
      ptx::barrier<32 * kLoaderWarps>(15);
      fill_items<kVector>(p, pass, work, items, warp * 32 + lane);
      ptx::barrier<32 * kLoaderWarps>(15);
      const int count = stage_items(p, pass, kVector);
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        ptx::mbarrier_wait(layout.x_empty + 8 * ring.slot, ring.parity ^ 1);
        const std::uint32_t stage = layout.x + ring.slot * stage_bytes;
        const std::uint32_t full = layout.x_full + 8 * ring.slot;
        if constexpr (kHalf) {
          auto* to = reinterpret_cast<std::uint32_t*>(smem + (stage - smem_base));
          load_stage_pairs<kVector>(p, items, count, chunk, x, to, warp, lane);
          ptx::mbarrier_arrive(full);
        } else {
          load_stage_words<kVector>(p, items, count, chunk, x, stage, warp, lane);
          ptx::mbarrier_arrive_after_cp_async(full);
        }
        ring.advance(p.x_stages);
      }
    }
  }
}

}  // namespace adjoint::cuda::correlation

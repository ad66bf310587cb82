// The tensor-core kernel of conv and conv_transpose for sm_90a; correlation_plan.h holds its schedule and index
// arithmetic.
//
// Positions are wgmma's rows and columns its columns. A fragments are read by LDS straight from the staged raw rows
// (any offset, no bank conflicts because of the pitch) and rounded in registers; B blocks are packed for the
// descriptor. Roles of a block's warpgroups: all but the last multiply and store, each its share of a tile's positions;
// of the last, warps 0 to 2 stage the input and warp 3 streams filter blocks. Stages and slots are rings with a full
// and an empty mbarrier each. No sum depends on the grid, on alignment or on the number of multiprocessors.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/correlation.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
struct ArithmeticTraits {
  using Element = float;
  static constexpr wgmma::Operand kOperand = wgmma::Operand::kTF32;
  static constexpr bool kSplit = kArithmetic == Arithmetic::kFloat32;
  static constexpr bool kHalf = false;
};
template <>
struct ArithmeticTraits<Arithmetic::kBFloat16> {
  using Element = __nv_bfloat16;
  static constexpr wgmma::Operand kOperand = wgmma::Operand::kBFloat16;
  static constexpr bool kSplit = false;
  static constexpr bool kHalf = true;
};
template <>
struct ArithmeticTraits<Arithmetic::kFloat16> {
  using Element = __half;
  static constexpr wgmma::Operand kOperand = wgmma::Operand::kFloat16;
  static constexpr bool kSplit = false;
  static constexpr bool kHalf = true;
};

namespace correlation {

inline constexpr int kLoaderWarps = 3;
inline constexpr int kMaxStages = 8;
inline constexpr int kMaxSlots = 64;

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

struct ColumnEntry {
  std::int64_t offset;  // elements from out's first to this column's value at position 0; kNoColumn for none
  std::int16_t h, w;    // added to q * stride
  float bias;
};
inline constexpr std::int64_t kNoColumn = INT64_MIN;

struct SharedLayout {
  std::uint32_t x_full, x_empty, w_full, w_empty, x, w;  // shared-memory addresses
};

/// Where an item of a stage (a vector of a row) comes from and goes to; the same for every channel of a pass.
struct StageItem {
  std::int32_t source;  // elements from the plane's first
  std::int32_t
      destination;  // units from the stage's channel, over 6 bits of the image's number in the tile; -1 - it: zeros
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
      asm volatile("bar.sync 15, %0;\n" ::"n"(32 * kLoaderWarps) : "memory");
      fill_items<kVector>(p, pass, work, items, warp * 32 + lane);
      asm volatile("bar.sync 15, %0;\n" ::"n"(32 * kLoaderWarps) : "memory");
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

/// One thread: filter blocks in the order of the walk, or all of them once where they are resident.
__device__ __forceinline__ void stream_filter(const CorrelationPlan& p, const CorrelationOperands& operands,
                                              const SharedLayout& layout) {
  Ring ring;
  const int bytes = 4 * p.w_block_units;
  const auto* blocks = static_cast<const unsigned char*>(operands.filter_blocks);
  const int tiles = static_cast<int>(p.tiles());
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const CorrelationWork work = correlation_work(p, tile);
    const int count = p.class_list[work.class_index].steps * p.chunks;
    const unsigned char* source = blocks + work.first_block * bytes;
    for (int i = 0; i < count; ++i, source += bytes) {
      ptx::mbarrier_wait(layout.w_empty + 8 * ring.slot, ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_bytes(layout.w_full + 8 * ring.slot, bytes);
      ptx::bulk_copy(layout.w + ring.slot * bytes, source, bytes, layout.w_full + 8 * ring.slot);
      ring.advance(p.w_slots);
    }
    if (p.weights_resident) break;
  }
}

template <class T>
__device__ __forceinline__ void fill_columns(const CorrelationPlan& p, const CorrelationWork& work, const T* bias,
                                             ColumnEntry* entries, int thread) {
  if (thread < p.tile_columns) {
    const CorrelationColumn column = correlation_column(p, work.class_index, work.first_column + thread);
    ColumnEntry entry{kNoColumn, 0, 0, 0.0F};
    if (column.valid) {
      const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.n_channels + column.channel;
      entry.h = static_cast<std::int16_t>(column.phase_h - p.out_offset_h);
      entry.w = static_cast<std::int16_t>(column.phase_w - p.out_offset_w);
      entry.offset = (channel * p.out_h + entry.h) * p.out_w + entry.w;
      entry.bias = bias != nullptr ? to_float(bias[channel]) : 0.0F;
    }
    entries[thread] = entry;
  }
}

/// kCount (16 bytes' worth, or two) neighbouring values.
template <int kCount, class T>
__device__ __forceinline__ void store_vector(T* to, const float* from, float bias) {
  union {
    T values[kCount];
    std::conditional_t<sizeof(T) * kCount == 16, uint4, std::conditional_t<sizeof(T) * kCount == 8, uint2, unsigned>>
        vector;
  } packed;
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const float2 pair = *reinterpret_cast<const float2*>(from + i);
    packed.values[i] = from_float<T>(pair.x + bias);
    packed.values[i + 1] = from_float<T>(pair.y + bias);
  }
  *reinterpret_cast<decltype(packed.vector)*>(to) = packed.vector;
}

/// What a warp stores from, and where to.
template <class T>
struct StagedColumns {
  T* out;
  const ColumnEntry* entries;
  const float* staging;
  std::int64_t sample;  // elements of one image of out
  int first_m, lane;
};

/// kVector neighbouring positions at a time; a lane's place is the same for every column.
template <int kVector, int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_vectors(const CorrelationPlan& p, const CorrelationWork& work,
                                              const StagedColumns<T>& staged) {
  constexpr int kLanesPerColumn = kWarpPositions / kVector;
  constexpr int kColumnsAtOnce = 32 / kLanesPerColumn;
  static_assert(kLanesPerColumn <= 32 && kStaged % kColumnsAtOnce == 0);
  const int m = staged.lane % kLanesPerColumn * kVector;
  const CorrelationPosition q = correlation_position(p, staged.first_m + m);
  const int h = (work.h + q.h) * p.out_stride_h, w = work.w + q.w;
  if (work.n + q.n >= p.batch || w >= p.out_w) return;
  T* to = staged.out + (work.n + q.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + w;
#pragma unroll 4
  for (int column = staged.lane / kLanesPerColumn; column < kStaged; column += kColumnsAtOnce) {
    const ColumnEntry entry = staged.entries[column];
    if (entry.offset != kNoColumn && static_cast<unsigned>(h + entry.h) < static_cast<unsigned>(p.out_h)) {
      store_vector<kVector>(to + entry.offset, staged.staging + column * (kWarpPositions + 4) + m, entry.bias);
    }
  }
}

/// One value at a time, lanes along rows of out: 1 << log2_interleave columns are neighbouring pixels.
template <int kStaged, int kWarpPositions, class T>
__device__ __forceinline__ void store_values(const CorrelationPlan& p, const CorrelationWork& work,
                                             const StagedColumns<T>& staged, int log2_interleave) {
  constexpr int kPitch = kWarpPositions + 4;
  const int mask = (1 << log2_interleave) - 1, group_size = kWarpPositions << log2_interleave;
  const CorrelationPosition first = correlation_position(p, staged.first_m);
  if ((1 << p.log2_tile_w) >= kWarpPositions) {  // all positions in one row: only the column is not the warp's
    const int h = (work.h + first.h) * p.out_stride_h, first_w = (work.w + first.w) * p.out_stride_w;
    if (work.n + first.n >= p.batch) return;
    T* to = staged.out + (work.n + first.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + first_w;
#pragma unroll 4
    for (int e = staged.lane; e < kStaged * kWarpPositions; e += 32) {
      const int within = e & (group_size - 1), phase = e & mask;
      const int column = ((e / kWarpPositions) & ~mask) | phase;
      const int m = within >> log2_interleave;
      const ColumnEntry entry = staged.entries[column];
      const int w = m * p.out_stride_w;
      const bool valid = entry.offset != kNoColumn &&
                         static_cast<unsigned>(h + entry.h) < static_cast<unsigned>(p.out_h) &&
                         static_cast<unsigned>(first_w + entry.w + w) < static_cast<unsigned>(p.out_w);
      const float value = staged.staging[column * kPitch + m] + entry.bias;
      if (valid) to[entry.offset + w] = from_float<T>(value);
    }
    return;
  }
  const int group_lanes = group_size < 32 ? group_size : 32;
  for (int e = staged.lane % group_lanes; e < group_size; e += 32) {
    const int phase = e & mask, m = e >> log2_interleave;
    const CorrelationPosition q = correlation_position(p, staged.first_m + m);
    const int h = (work.h + q.h) * p.out_stride_h, w = (work.w + q.w) * p.out_stride_w;
    const bool in_batch = work.n + q.n < p.batch;
    T* to = staged.out + (work.n + q.n) * staged.sample + static_cast<std::int64_t>(h) * p.out_w + w;
#pragma unroll 4
    for (int column = ((staged.lane / group_lanes) << log2_interleave) + phase; column < kStaged;
         column += (32 / group_lanes) << log2_interleave) {
      const ColumnEntry entry = staged.entries[column];
      const bool valid = entry.offset != kNoColumn && in_batch &&
                         static_cast<unsigned>(h + entry.h) < static_cast<unsigned>(p.out_h) &&
                         static_cast<unsigned>(w + entry.w) < static_cast<unsigned>(p.out_w);
      const float value = staged.staging[column * kPitch + m] + entry.bias;
      if (valid) to[entry.offset] = from_float<T>(value);
    }
  }
}

/// Stores a warp's sums, some columns at a time through its own staging rows, so that lanes write along rows of out.
/// Only what names registers is unrolled: straight-line code for all columns would not fit the instruction cache.
template <class T, int kColumns, int kMTiles>
__device__ __forceinline__ void store_tile(const CorrelationPlan& p, const CorrelationOperands& operands,
                                           const CorrelationWork& work, const float (&sums)[kMTiles][kColumns / 2],
                                           const ColumnEntry* entries, float* staging, int first_m, int lane) {
  constexpr int kStaged = correlation_staged_columns(kColumns);
  constexpr int kWarpPositions = 16 * kMTiles;
  constexpr int kPitch =
      kWarpPositions + 4;  // 4 modulo 16: the eight-by-four pattern of a fragment hits each bank once
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  const int g = lane / 4, t = lane % 4;
  // Neighbouring columns are phases of neighbouring pixels; lanes run over both where the stride divides kStaged.
  const int stride = p.out_stride_w;
  const int log2_interleave = stride == 2 ? 1 : stride == 4 ? 2 : stride == 8 ? 3 : stride == 16 ? 4 : 0;
  StagedColumns<T> staged{static_cast<T*>(operands.out),
                          entries,
                          staging,
                          static_cast<std::int64_t>(p.groups) * p.n_channels * p.out_h * p.out_w,
                          first_m,
                          lane};
#pragma unroll
  for (int first = 0; first < kColumns; first += kStaged) {
    __syncwarp();
#pragma unroll
    for (int block = 0; block < kStaged / 8; ++block) {
#pragma unroll
      for (int j = 0; j < kMTiles; ++j) {
        float* to = staging + (8 * block + 2 * t) * kPitch + 16 * j + g;
        const float* from = sums[j] + first / 2 + 4 * block;
        to[0] = from[0];
        to[kPitch] = from[1];
        to[8] = from[2];
        to[kPitch + 8] = from[3];
      }
    }
    __syncwarp();
    staged.entries = entries + first;
    if (operands.store_vector == kWide) {
      store_vectors<kWide, kStaged, kWarpPositions>(p, work, staged);
    } else if (operands.store_vector == 2) {
      store_vectors<2, kStaged, kWarpPositions>(p, work, staged);
    } else {
      store_values<kStaged, kWarpPositions>(p, work, staged, log2_interleave);
    }
  }
}

template <Arithmetic kArithmetic, int kColumns, int kMTiles>
__device__ __forceinline__ void multiply_and_store(const CorrelationPlan& p, const CorrelationOperands& operands,
                                                   const SharedLayout& layout, ColumnEntry* entries, float* staging,
                                                   int warpgroup, int warp, int lane) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  constexpr bool kSplit = Traits::kSplit;
  constexpr int kBlockBytes = 4 * kChunkUnits * kColumns * (kSplit ? 2 : 1);
  constexpr int kHalfBytes = 2 * kColumns * 16;  // of a block: 8 units of K
  const int g = lane / 4, t = lane % 4;
  const int first_m = warpgroup * 64 * kMTiles + warp * 16 * kMTiles;
  const std::uint32_t stage_bytes = 4 * kChunkUnits * p.unit_pitch;
  const std::uint32_t k_bytes = 16 * p.unit_pitch;  // four units further along K

  std::uint32_t row[kMTiles][2];
#pragma unroll
  for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      row[j][h] = 4 * (correlation_stage_offset(p, first_m + 16 * j + 8 * h + g) + t * p.unit_pitch);
    }
  }

  float sums[kMTiles][kColumns / 2];
  float totals[kSplit ? kMTiles : 1][kSplit ? kColumns / 2 : 1];
  Ring x_ring, w_ring;
  const int tiles = static_cast<int>(p.tiles());
  const bool resident = p.weights_resident;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    int class_index;
    {
      const CorrelationWork work = correlation_work(p, tile);
      class_index = work.class_index;
      // The other warps of this warpgroup may still read the last tile's columns.
      asm volatile("bar.sync %0, 128;\n" ::"r"(warpgroup + 1) : "memory");
      fill_columns(p, work, static_cast<const T*>(operands.bias), entries, warp * 32 + lane);
    }
    const int end_pass = p.class_list[class_index].first_pass + p.class_list[class_index].passes;
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        sums[j][i] = 0;
        if constexpr (kSplit) totals[j][i] = 0;
      }
    }
    int pending_slot = -1;
    for (int i = p.class_list[class_index].first_pass; i < end_pass; ++i) {
      const int first_step = p.passes[i].first_step, end_step = first_step + p.passes[i].steps;
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        ptx::mbarrier_wait(layout.x_full + 8 * x_ring.slot, x_ring.parity);
        const std::uint32_t stage = layout.x + x_ring.slot * stage_bytes;
        for (int s = first_step; s < end_step; ++s) {
          ptx::mbarrier_wait(layout.w_full + 8 * w_ring.slot, resident ? 0 : w_ring.parity);
          const std::uint32_t step_base = stage + 4 * p.steps[s].x_offset;
          const std::uint64_t descriptor =
              wgmma::matrix_descriptor(layout.w + w_ring.slot * kBlockBytes, kColumns * 16);
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            std::uint32_t a[kMTiles][4];
            std::uint32_t tail[kSplit ? kMTiles : 1][4];
#pragma unroll
            for (int j = 0; j < kMTiles; ++j) {
#pragma unroll
              for (int r = 0; r < 4; ++r) {
                std::uint32_t value;
                asm volatile("ld.shared.b32 %0, [%1];\n"
                             : "=r"(value)
                             : "r"(row[j][r & 1] + (step_base + (2 * k + r / 2) * k_bytes)));
                if constexpr (kSplit) {
                  split_tf32(__uint_as_float(value), a[j][r], tail[j][r]);
                } else if constexpr (Traits::kHalf) {
                  a[j][r] = value;
                } else {
                  a[j][r] = ptx::round_to_tf32(__uint_as_float(value));
                }
              }
            }
            const std::uint64_t b = descriptor + ((k * kHalfBytes) >> 4);
#pragma unroll
            for (int j = 0; j < kMTiles; ++j) {
              wgmma::pin(a[j]);
              if constexpr (kSplit) wgmma::pin(tail[j]);
              if (kSplit || k == 0) wgmma::pin(sums[j]);
            }
            wgmma::fence();
#pragma unroll
            for (int j = 0; j < kMTiles; ++j) {
              wgmma::multiply<Traits::kOperand, kColumns>(sums[j], a[j], b);
              if constexpr (kSplit) {
                wgmma::multiply<Traits::kOperand, kColumns>(sums[j], a[j], b + ((kBlockBytes / 2) >> 4));
                wgmma::multiply<Traits::kOperand, kColumns>(sums[j], tail[j], b);
              }
            }
            wgmma::commit();
            wgmma::wait<1>();
            if (k == 0 && pending_slot >= 0 && !resident) {
              if (lane == 0) ptx::mbarrier_arrive(layout.w_empty + 8 * pending_slot);
            }
          }
          pending_slot = w_ring.slot;
          w_ring.advance(p.w_slots);
          if constexpr (kSplit) {
            wgmma::wait<0>();
#pragma unroll
            for (int j = 0; j < kMTiles; ++j) {
              wgmma::pin(sums[j]);
#pragma unroll
              for (int n = 0; n < kColumns / 2; ++n) {
                totals[j][n] += sums[j][n];
                sums[j][n] = 0;
              }
            }
          }
        }
        // Every lane for itself: one lane after a __syncwarp is 1% faster at best, and racecheck takes it for a race.
        ptx::mbarrier_arrive(layout.x_empty + 8 * x_ring.slot);
        x_ring.advance(p.x_stages);
      }
    }
    wgmma::wait<0>();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) wgmma::pin(sums[j]);
    if (pending_slot >= 0 && !resident && lane == 0) ptx::mbarrier_arrive(layout.w_empty + 8 * pending_slot);
    asm volatile("bar.sync %0, 128;\n" ::"r"(warpgroup + 1) : "memory");
    // Worked out again rather than held in registers through the loop.
    int same_tile = tile;
    asm volatile("" : "+r"(same_tile));
    const CorrelationWork work = correlation_work(p, same_tile);
    if constexpr (kSplit) {
      store_tile<T, kColumns, kMTiles>(p, operands, work, totals, entries, staging, first_m, lane);
    } else {
      store_tile<T, kColumns, kMTiles>(p, operands, work, sums, entries, staging, first_m, lane);
    }
  }
}

template <Arithmetic kArithmetic, int kColumns, int kMTiles, int kConsumers, int kBlocksPerSM>
__global__ void __launch_bounds__(128 * (kConsumers + 1), kBlocksPerSM)
    correlation_kernel(const __grid_constant__ CorrelationPlan plan, const CorrelationOperands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which nothing launches
  extern __shared__ __align__(128) unsigned char smem[];
  __shared__ __align__(8) std::uint64_t barriers[2 * kMaxStages + 2 * kMaxSlots];
  __shared__ __align__(16) ColumnEntry entries[kConsumers][kColumns];
  constexpr int kStagingFloats = correlation_staged_columns(kColumns) * (16 * kMTiles + 4);
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;

  SharedLayout layout;
  const std::uint32_t smem_base = ptx::shared_address(smem);
  layout.x_full = ptx::shared_address(barriers);
  layout.x_empty = layout.x_full + 8 * kMaxStages;
  layout.w_full = layout.x_empty + 8 * kMaxStages;
  layout.w_empty = layout.w_full + 8 * kMaxSlots;
  layout.w = smem_base + 4 * kConsumers * kStagingFloats * 4;
  layout.x = layout.w + 4 * plan.w_slots * plan.w_block_units;
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.x_stages; ++i) {
      ptx::mbarrier_init(layout.x_full + 8 * i, kLoaderWarps * 32);
      ptx::mbarrier_init(layout.x_empty + 8 * i, 128 * kConsumers);
    }
    for (int i = 0; i < plan.w_slots; ++i) {
      ptx::mbarrier_init(layout.w_full + 8 * i, 1);
      ptx::mbarrier_init(layout.w_empty + 8 * i, 4 * kConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  constexpr bool kHalf = ArithmeticTraits<kArithmetic>::kHalf;
  if (warpgroup == kConsumers) {
    ptx::lower_register_limit<kConsumers == 2 ? 88 : 64>();
    if (warp < kLoaderWarps) {
      auto* items = reinterpret_cast<StageItem*>(smem + (layout.x - smem_base) +
                                                 4 * kChunkUnits * plan.x_stages * plan.unit_pitch);
      if (operands.load_vector == (kHalf ? 8 : 4)) {
        stage_input<kHalf, kHalf ? 8 : 4>(plan, operands, layout, smem, smem_base, items, warp, lane);
      } else if (operands.load_vector == 2) {
        stage_input<kHalf, 2>(plan, operands, layout, smem, smem_base, items, warp, lane);
      } else {
        stage_input<kHalf, 1>(plan, operands, layout, smem, smem_base, items, warp, lane);
      }
    } else if (lane == 0) {
      stream_filter(plan, operands, layout);
    }
  } else {
    ptx::raise_register_limit<kConsumers == 2 ? 208 : 192>();
    float* staging = reinterpret_cast<float*>(smem) + (warpgroup * 4 + warp) * kStagingFloats;
    multiply_and_store<kArithmetic, kColumns, kMTiles>(plan, operands, layout, entries[warpgroup], staging, warpgroup,
                                                       warp, lane);
  }
#endif
}

/// Filter blocks in the order of every tile's walk: [unit / 4][column][unit % 4] units, tails after heads where split.
template <Arithmetic kArithmetic>
__global__ void pack_filter_kernel(const __grid_constant__ CorrelationPlan plan, const void* filter_pointer,
                                   std::uint32_t* blocks) {
  using Traits = ArithmeticTraits<kArithmetic>;
  const auto* filter = static_cast<const typename Traits::Element*>(filter_pointer);
  const int group = static_cast<int>(blockIdx.y) / plan.column_tiles;
  const int column_tile = static_cast<int>(blockIdx.y) % plan.column_tiles;
  CorrelationWork work = correlation_work(plan, static_cast<std::int64_t>(group) * plan.column_tiles + column_tile);
  const int units = kChunkUnits * plan.tile_columns;
  const std::int64_t taps = static_cast<std::int64_t>(plan.kernel_h) * plan.kernel_w;
  const std::int64_t count = static_cast<std::int64_t>(plan.class_list[work.class_index].steps) * plan.chunks * units;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const int block = static_cast<int>(i / units), within = static_cast<int>(i % units);
    const CorrelationBlock where = correlation_block(plan, work.class_index, block);
    const int column_index = within / 4 % plan.tile_columns;
    const int unit = within / (4 * plan.tile_columns) * 4 + within % 4;
    const CorrelationColumn column = correlation_column(plan, work.class_index, work.first_column + column_index);
    const int tap = correlation_filter_tap(plan, plan.steps[where.step], column);
    float values[2] = {0, 0};
    std::uint16_t bits[2] = {0, 0};
    for (int j = 0; j < plan.unit_channels; ++j) {
      const std::int64_t k = (static_cast<std::int64_t>(where.chunk) * kChunkUnits + unit) * plan.unit_channels + j;
      if (tap < 0 || k >= plan.k_channels) continue;
      const std::int64_t pair =
          plan.transposed ? (group * static_cast<std::int64_t>(plan.k_channels) + k) * plan.n_channels + column.channel
                          : (group * static_cast<std::int64_t>(plan.n_channels) + column.channel) * plan.k_channels + k;
      if constexpr (Traits::kHalf) {
        bits[j] = reinterpret_cast<const std::uint16_t*>(filter)[pair * taps + tap];
      } else {
        values[j] = filter[pair * taps + tap];
      }
    }
    std::uint32_t* to = blocks + (work.first_block + block) * plan.w_block_units + within;
    if constexpr (Traits::kHalf) {
      *to = bits[0] | static_cast<std::uint32_t>(bits[1]) << 16;
    } else if constexpr (Traits::kSplit) {
      split_tf32(values[0], to[0], to[units]);
    } else {
      *to = ptx::round_to_tf32(values[0]);
    }
  }
}

}  // namespace correlation
}  // namespace adjoint::cuda

// conv and conv_transpose with few columns and several taps, by wgmma from shared memory (packed_plan.h tells how the
// work is cut). A block's threads begin a stage's products, which the tensor cores then do by themselves, and load the
// next stage meanwhile; two blocks share a multiprocessor, so that one's stores fall into the other's products.
#pragma once

#include <adjoint/ops/conv/packed_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/cuda/line.cuh>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace adjoint::cuda::packed {

template <class T>
struct Operands : line::Operands<T> {
  const uint4* packed;  // the filter: [group][stage][offset][unit / 4][column], four units each
};

template <Arithmetic kArithmetic>
inline constexpr wgmma::Operand kOperand = kArithmetic == Arithmetic::kBFloat16  ? wgmma::Operand::kBFloat16
                                           : kArithmetic == Arithmetic::kFloat16 ? wgmma::Operand::kFloat16
                                                                                 : wgmma::Operand::kTF32;

/// Rounded, as four units.
template <class T>
__device__ __forceinline__ uint4 pack_units(const T (&values)[16 / sizeof(T)]) {
  uint4 units;
  if constexpr (std::is_same_v<T, float>) {
    units = make_uint4(ptx::round_to_tf32(values[0]), ptx::round_to_tf32(values[1]), ptx::round_to_tf32(values[2]),
                       ptx::round_to_tf32(values[3]));
  } else {
    memcpy(&units, values, sizeof(units));
  }
  return units;
}

/// Where a block's shared memory lies: tables, then the stages' parts, or in the end the results.
struct Shared {
  int* sources;   // [element of the line, or vector]: places in a source plane, from the tile's first sample on, or -1
  float* biases;  // [column]
  unsigned char* packed;
  unsigned char* raw;      // [channel][element of the line]
  unsigned char* filters;  // two
};

__device__ __forceinline__ Shared shared_of(const PackedPlan& p) {
  unsigned char* const smem = ptx::dynamic_smem();
  int* sources = reinterpret_cast<int*>(smem);
  unsigned char* const packed = smem + p.table_bytes();
  return {sources, reinterpret_cast<float*>(sources + p.length), packed, packed + p.source_bytes(),
          packed + 2 * p.source_bytes()};
}

/// Begins to copy a stage's source, as it lies in memory, and its filter. `source`: of the group's first channel, in
/// the tile's first sample; `filter`: of the group's first stage.
template <class T>
__device__ __forceinline__ void load_stage(const PackedPlan& p, const T* source, bool vectors, const uint4* filter,
                                           int index, const Shared& shared) {
  const int channels = p.stage_channels(), first = index * channels, valid = min(channels, p.source_channels - first);
  auto* const raw = reinterpret_cast<T*>(shared.raw);
  source += first * static_cast<std::int64_t>(p.h.source) * p.w.source;
  if (vectors) {
    line::stage_source<kPackedThreads, 16 / sizeof(T)>(p, source, valid, channels, shared.sources, raw);
  } else {
    line::stage_source<kPackedThreads, 1>(p, source, valid, channels, shared.sources, raw);
  }
  const int count = p.filter_vectors();
  const std::uint32_t to = ptx::shared_address(shared.filters + (index & 1) * 16 * count);
  filter += static_cast<std::int64_t>(index) * count;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kPackedThreads) {
    ptx::cp_async_zfill<16>(to + 16 * i, filter + i, true);
  }
  ptx::cp_async_commit();
}

/// What load_stage() copied, as the products take it: rounded, and packed by units. Four elements of the line at a
/// time.
template <class T>
__device__ __forceinline__ void pack_stage(const PackedPlan& p, const Shared& shared) {
  constexpr int kChannels = 16 / sizeof(T);  // of four units
  struct alignas(4 * sizeof(T)) Four {
    T values[4];
  };
  const int fours = p.length / 4, items = p.stage_units / 4 * fours;
  const auto* const raw = reinterpret_cast<const Four*>(shared.raw);
  auto* const to = reinterpret_cast<uint4*>(shared.packed);
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < items; i += kPackedThreads) {
    const Four* from = raw + p.fours_divider.divide(static_cast<unsigned>(i)) * ((kChannels - 1) * fours) + i;
    Four values[kChannels];
#pragma unroll
    for (int c = 0; c < kChannels; ++c) values[c] = from[c * fours];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      T units[kChannels];
#pragma unroll
      for (int c = 0; c < kChannels; ++c) units[c] = values[c].values[k];
      to[4 * i + k] = pack_units(units);
    }
  }
}

/// The filter in the order and the form in which stages take it: a block a stage of a group.
template <class T, int kColumns>
__global__ void __launch_bounds__(kPackedThreads)
    pack_filter_kernel(const __grid_constant__ PackedPlan p, const T* filter, uint4* packed) {
  constexpr int kGroupChannels = 16 / sizeof(T);
  int* const taps = reinterpret_cast<int*>(ptx::dynamic_smem());
  const int count = p.offsets() * kColumns, groups = p.stage_units / 4, stages = p.stages();
  LineTile tile{};
  tile.group = static_cast<int>(blockIdx.x) / stages;
  const int stage = static_cast<int>(blockIdx.x) % stages;
  line::fill_taps<kColumns, kColumns, kPackedThreads>(p, tile, count, taps);
  __syncthreads();
  packed += static_cast<std::int64_t>(blockIdx.x) * p.filter_vectors();
  filter += tile.group * p.filter_group;
  for (int i = static_cast<int>(threadIdx.x); i < count * groups; i += kPackedThreads) {
    const int column = i % kColumns, group = i / kColumns % groups, offset = i / kColumns / groups;
    const int tap = taps[offset * kColumns + column], channel = (stage * groups + group) * kGroupChannels;
    T values[kGroupChannels];
#pragma unroll
    for (int c = 0; c < kGroupChannels; ++c) {
      const bool exists = tap >= 0 && channel + c < p.source_channels;
      values[c] = exists ? filter[(channel + c) * p.filter_source + tap] : from_float<T>(0.0F);
    }
    packed[i] = pack_units(values);
  }
}

/// Begins all products of a stage. kFirst: the warpgroup's first position.
template <Arithmetic kArithmetic, int kColumns, int kFirst, int kMTiles>
__device__ __forceinline__ void multiply_stage(const PackedPlan& p, const Shared& shared, int index,
                                               float (&sums)[kMTiles][kColumns / 2]) {
  const int groups = p.stage_units / 4;
  // Only the address, in the lower word, changes.
  const std::uint64_t source = wgmma::matrix_descriptor(ptx::shared_address(shared.packed), 16 * p.length);
  const std::uint64_t filter =
      wgmma::matrix_descriptor(ptx::shared_address(shared.filters) + (index & 1) * 16 * p.filter_vectors(),
                               16 * kColumns);
  const auto descriptor = [](std::uint64_t of, std::uint32_t low) { return of >> 32 << 32 | low; };
  int accumulate = index == 0 ? 0 : 1;
#pragma unroll
  for (int j = 0; j < kMTiles; ++j) wgmma::pin(sums[j]);
  wgmma::fence();
#pragma unroll 1
  for (int group = 0; group < groups; group += 2) {
    std::uint32_t row = static_cast<std::uint32_t>(source) + kFirst + p.offset_place(0, 0) + group * p.length;
    std::uint32_t b = static_cast<std::uint32_t>(filter) + group * kColumns;
#pragma unroll 1
    for (int h = 0; h < p.h.offsets; ++h, row += p.step_h) {
      std::uint32_t a = row;
#pragma unroll 1
      for (int w = 0; w < p.w.offsets; ++w, a += p.step_w, b += groups * kColumns) {
#pragma unroll
        for (int j = 0; j < kMTiles; ++j) {
          wgmma::multiply_shared<kOperand<kArithmetic>, kColumns>(sums[j], descriptor(source, a + 64 * j),
                                                                  descriptor(filter, b), accumulate);
        }
        accumulate = 1;
      }
    }
  }
  wgmma::commit();
}

/// A warpgroup's sums as [column][position], `out` that of its first position.
template <int kColumns, int kMTiles>
__device__ __forceinline__ void stage_results(const PackedPlan& p, const float (&sums)[kMTiles][kColumns / 2],
                                              float* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int pitch = p.out_pitch();
  out += lane % 4 * 2 * pitch + 16 * warp + lane / 4;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n, out += 8 * pitch) {
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) {
      const float* from = sums[j] + 4 * n;
      out[64 * j] = from[0];
      out[64 * j + pitch] = from[1];
      out[64 * j + 8] = from[2];
      out[64 * j + pitch + 8] = from[3];
    }
  }
}

/// Every column's bias; columns past the results' have none.
template <class T>
__device__ __forceinline__ void fill_biases(const PackedPlan& p, const LineTile& tile, const Operands<T>& operands,
                                            float* biases) {
  for (int m = static_cast<int>(threadIdx.x); m < p.group_results(); m += kPackedThreads) {
    biases[m] = line::bias_of(p, tile, operands, line_result(p, m).channel);
  }
}

/// The results of one phase of the rows, which lie a plane apart, of one position. `out`: of channel 0.
template <bool kPlain, class T>
__device__ __forceinline__ void store_channels(const PackedPlan& p, const Operands<T>& operands, const float* out,
                                               const float* biases, std::int64_t at) {
  const int columns = p.h.phases * p.w.phases, step = columns * p.out_pitch();
  const std::int64_t plane = static_cast<std::int64_t>(p.h.result) * p.w.result;
#pragma unroll 8
  for (int channel = 0; channel < p.channels; ++channel) {
    const float value = *out + *biases;
    if constexpr (kPlain) {
      operands.result[at] = from_float<T>(value);
    } else {
      line::store_result(operands, at, value);
    }
    out += step;
    biases += columns;
    at += plane;
  }
}

/// Bias, activation and stores, by all threads, along the results' rows.
template <bool kPlain, class T>
__device__ __forceinline__ void store_results(const PackedPlan& p, const LineTile& tile, const Operands<T>& operands,
                                              const float* out, const float* biases) {
  const int pitch = p.out_pitch();
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < p.tile_positions * p.w.phases; i += kPackedThreads) {
    int phase_w = i;
    const int position = p.phase_divider.split(phase_w);
    const line::ResultPlace place = line::find_results(p, tile, tile.first + position);
    if (!line::has_column(p, place, phase_w)) continue;
#pragma unroll 1
    for (int phase_h = 0, m = phase_w; phase_h < p.h.phases; ++phase_h, m += p.w.phases) {
      if (!line::has_row(p, place, phase_h)) continue;
      store_channels<kPlain>(p, operands, out + m * pitch + position, biases + m,
                             place.at + static_cast<std::int64_t>(phase_h) * p.w.result + phase_w);
    }
  }
}

template <Arithmetic kArithmetic, int kColumns>
__global__ void __launch_bounds__(kPackedThreads, 2)
    packed_kernel(const __grid_constant__ PackedPlan p,
                  const Operands<typename ArithmeticTraits<kArithmetic>::Element> operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which nothing launches
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  constexpr int kMTiles = packed_m_tiles(kColumns);
  const LineTile tile = line_tile(p, static_cast<int>(blockIdx.x));
  const Shared shared = shared_of(p);
  line::fill_sources<kPackedThreads>(p, tile, operands.vectors ? 16 / sizeof(T) : 1, shared.sources);
  fill_biases(p, tile, operands, shared.biases);
  __syncthreads();

  const std::int64_t plane = static_cast<std::int64_t>(p.h.source) * p.w.source;
  const std::int64_t first_sample = line_place(p, tile.first).sample;
  const T* source = operands.source + (first_sample * p.groups + tile.group) * p.source_channels * plane;
  const int stages = p.stages();
  const uint4* filter = operands.packed + tile.group * stages * p.filter_vectors();
  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  float sums[kMTiles][kColumns / 2] = {};
  load_stage(p, source, operands.vectors, filter, 0, shared);
#pragma unroll 1
  for (int index = 0; index < stages; ++index) {
    // The stage's copies are there, and nobody multiplies what is now overwritten.
    ptx::cp_async_wait<0>();
    __syncthreads();
    pack_stage<T>(p, shared);
    ptx::fence_async_proxy();
    __syncthreads();
    if (index + 1 < stages) load_stage(p, source, operands.vectors, filter, index + 1, shared);
    if (warpgroup == 0) {
      multiply_stage<kArithmetic, kColumns, 0>(p, shared, index, sums);
    } else {
      multiply_stage<kArithmetic, kColumns, 64 * kMTiles>(p, shared, index, sums);
    }
    wgmma::wait<0>();
#pragma unroll
    for (int j = 0; j < kMTiles; ++j) wgmma::pin(sums[j]);
  }
  __syncthreads();
  float* const out = reinterpret_cast<float*>(shared.packed);
  stage_results<kColumns, kMTiles>(p, sums, out + warpgroup * 64 * kMTiles);
  __syncthreads();
  if (operands.activate.is_none() && operands.linear == nullptr) {
    store_results<true>(p, tile, operands, out, shared.biases);
  } else {
    store_results<false>(p, tile, operands, out, shared.biases);
  }
#endif
}

template <Arithmetic kArithmetic>
using Kernel = void (*)(PackedPlan, Operands<typename ArithmeticTraits<kArithmetic>::Element>);

template <class T>
using PackKernel = void (*)(PackedPlan, const T*, uint4*);

/// The plan's kernels.
template <class T>
PackKernel<T> select_pack(const PackedPlan& p) {
  switch (p.columns) {
    case 16: return pack_filter_kernel<T, 16>;
    case 32: return pack_filter_kernel<T, 32>;
    default: return pack_filter_kernel<T, 64>;
  }
}

template <Arithmetic kArithmetic>
Kernel<kArithmetic> select(const PackedPlan& p) {
  switch (p.columns) {
    case 16: return packed_kernel<kArithmetic, 16>;
    case 32: return packed_kernel<kArithmetic, 32>;
    default: return packed_kernel<kArithmetic, 64>;
  }
}

}  // namespace adjoint::cuda::packed

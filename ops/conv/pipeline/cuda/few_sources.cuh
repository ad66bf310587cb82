// conv of channels_last sources of a few channels (pipeline/few_sources.h describes how the work is cut). A warp reads
// its positions' operands by a table of the summed axis, and multiplies them by the block's filters. No sum depends on
// the grid.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/pipeline/few_sources.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/mma_multiply.cuh>

#include <cstdint>
#include <cstring>
#include <limits>

namespace adjoint::cuda::few_sources {

template <class T>
struct Operands {
  const T *source, *filter, *bias;  // bias: may be null
  T* result;
  Activate<float> activate;
};

inline constexpr int kTiles = kFewSourcesResults / kFewSourcesColumns;   // of a product's columns
inline constexpr int kRows = 8, kGroups = kFewSourcesPositions / kRows;  // a lane's positions are kRows apart
inline constexpr std::int32_t kOutside = -2 * std::numeric_limits<std::int16_t>::max();  // a place with no tap inside

/// The unit of an operand: a tf32, or two halves.
__device__ __forceinline__ std::uint32_t unit_of(const float (&values)[1]) { return ptx::round_to_tf32(values[0]); }
template <class T>
__device__ __forceinline__ std::uint32_t unit_of(const T (&values)[2]) {
  std::uint32_t unit;
  memcpy(&unit, values, sizeof(unit));
  return unit;
}

/// The table of the summed axis: the places of the source and the filter that are read.
__device__ __forceinline__ void make_table(const FewSourcesPlan& p, int summed, SourceTap* taps,
                                           std::int32_t* filter_at) {
  for (int i = static_cast<int>(threadIdx.x); i < summed; i += kFewSourcesThreads) {
    const int tap = i / p.channels, channel = i - tap * p.channels;
    std::int32_t column = tap;
    const int row = p.kernel_width.split(column);
    const int y = p.first[0] + row * p.between[0], x = p.first[1] + column * p.between[1];
    const bool is_given = i < p.summed;
    taps[i] = {is_given ? (y * p.width + x) * p.channels + channel : 0,
               static_cast<std::int16_t>(is_given ? y : std::numeric_limits<std::int16_t>::min()),
               static_cast<std::int16_t>(x)};
    filter_at[i] = is_given ? static_cast<std::int32_t>(channel * p.channel_step + tap * p.tap_step) : -1;
  }
}

/// A lane's positions of a tile: their places in the source, and the elements before them.
struct Places {
  std::int32_t y[kGroups], x[kGroups], from[kGroups];

  __device__ __forceinline__ Places(const FewSourcesPlan& p, int first) {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      std::int32_t at = first + i * kRows;
      std::int32_t row = p.result_width.split(at);
      const std::int32_t sample = p.result_height.split(row);
      y[i] = first + i * kRows < p.positions ? row * p.stride[0] : kOutside;
      x[i] = at * p.stride[1];
      from[i] = ((sample * p.height + row * p.stride[0]) * p.width + x[i]) * p.channels;
    }
  }

  __device__ __forceinline__ bool reaches(const FewSourcesPlan& p, int i, const SourceTap& tap) const {
    return static_cast<std::uint32_t>(y[i] + tap.y) < static_cast<std::uint32_t>(p.height) &&
           static_cast<std::uint32_t>(x[i] + tap.x) < static_cast<std::uint32_t>(p.width);
  }
};

/// Prefetches the source of a warp's first tile into the L2 while the filters arrive. Otherwise each step of a short
/// sum would wait for memory.
template <class T>
__device__ __forceinline__ void prefetch_tile(const FewSourcesPlan& p, const T* source, const SourceTap* taps, int tile,
                                              int lane) {
  const Places at(p, tile * kFewSourcesPositions + lane / 4);
#pragma unroll 1
  for (int summed = lane % 4 * p.channels; summed < p.summed; summed += 4 * p.channels) {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      if (at.reaches(p, i, taps[summed])) ptx::prefetch(source + at.from[i] + taps[summed].offset);
    }
  }
}

/// A lane's units of every step: [step][columns][lane].
template <class T>
__device__ __forceinline__ void bring_filter(const FewSourcesPlan& p, const T* filter, int first_result,
                                             const std::int32_t* filter_at, uint2* filters) {
  constexpr int kPerUnit = 4 / sizeof(T), kDepth = FewSourcesPlan::depth(sizeof(T));
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < p.steps * kTiles * 32; i += kFewSourcesThreads) {
    const int lane = i % 32, step = i / (32 * kTiles), result = first_result + i / 32 % kTiles * 8 + lane / 4;
    std::uint32_t units[2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      T values[kPerUnit];
#pragma unroll
      for (int e = 0; e < kPerUnit; ++e) {
        const std::int32_t at = filter_at[step * kDepth + (lane % 4 + 4 * u) * kPerUnit + e];
        const bool is_given = result < p.results && at >= 0;
        values[e] = is_given ? filter[result * p.result_step + at] : from_float<T>(0.0F);
      }
      units[u] = unit_of(values);
    }
    filters[i] = {units[0], units[1]};
  }
}

/// Exchanges elements i and j of lanes whose numbers differ in `mask`: of i among lanes without its bit, of j with it.
__device__ __forceinline__ void exchange(std::uint32_t& i, std::uint32_t& j, int lane, int mask) {
  const bool has_bit = (lane & mask) != 0;
  const std::uint32_t got = __shfl_xor_sync(0xffffffff, has_bit ? i : j, mask);
  (has_bit ? i : j) = got;
}

/// Stores a position's results, of which a lane has two neighbours in every eight. Neighbouring lanes first exchange
/// theirs, so that each stores 16 bytes.
template <class T>
__device__ __forceinline__ void store(const FewSourcesPlan& p, T* result, int position, int first_result, int lane,
                                      const float (&values)[kTiles][2]) {
  constexpr int kStored = 16 / sizeof(T);
  const bool is_given = position < p.positions;
  result += static_cast<std::int64_t>(position) * p.results;
  if (p.results % kStored != 0) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int at = first_result + kFewSourcesColumns * j + lane % 4 * 2 + e;
        if (is_given && at < p.results) result[at] = from_float<T>(values[j][e]);
      }
    }
    return;
  }
  // Columns of which a lane has its pair: eight of halves make 16 bytes, from four lanes, four of floats from two.
  constexpr int kLanes = kStored / 2, kUnits = 2 * sizeof(T) / sizeof(std::uint32_t);
#pragma unroll
  for (int j = 0; j < kTiles; j += kLanes) {
    std::uint32_t units[kLanes][kUnits];
#pragma unroll
    for (int k = 0; k < kLanes; ++k) {
      const T pair[2] = {from_float<T>(values[j + k][0]), from_float<T>(values[j + k][1])};
      memcpy(units[k], pair, sizeof(pair));
    }
#pragma unroll
    for (int mask = 1; mask < kLanes; mask *= 2) {
#pragma unroll
      for (int k = 0; k < kLanes; ++k) {
        if ((k & mask) != 0) continue;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) exchange(units[k][u], units[k + mask][u], lane, mask);
      }
    }
    const int at = first_result + kFewSourcesColumns * (j + lane % kLanes) + lane % 4 / kLanes * kStored;
    if (is_given && at < p.results) {
      uint4 whole;
      memcpy(&whole, units, sizeof(whole));
      *reinterpret_cast<uint4*>(result + at) = whole;
    }
  }
}

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(kFewSourcesThreads, 2)
    few_sources_kernel(const __grid_constant__ FewSourcesPlan p,
                       const __grid_constant__ Operands<typename ArithmeticTraits<kArithmetic>::Element> operands) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  constexpr int kPerUnit = 4 / sizeof(T), kDepth = FewSourcesPlan::depth(sizeof(T));
  auto* const filters = reinterpret_cast<uint2*>(ptx::dynamic_smem());
  auto* const taps = reinterpret_cast<SourceTap*>(ptx::dynamic_smem() + p.filter_bytes());
  const int summed = p.steps * kDepth;
  auto* const filter_at = reinterpret_cast<std::int32_t*>(taps + summed);
  auto* const biases = reinterpret_cast<float*>(filter_at + summed);
  const int first_result = static_cast<int>(blockIdx.y) * kFewSourcesResults;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  ptx::wait_for_earlier_kernels();
  make_table(p, summed, taps, filter_at);
  __syncthreads();
  prefetch_tile(p, operands.source, taps, static_cast<int>(blockIdx.x) * kFewSourcesWarps + warp, lane);
  bring_filter(p, operands.filter, first_result, filter_at, filters);
  for (int i = static_cast<int>(threadIdx.x); i < kFewSourcesResults; i += kFewSourcesThreads) {
    const bool has_bias = operands.bias != nullptr && first_result + i < p.results;
    biases[i] = has_bias ? to_float(operands.bias[first_result + i]) : 0.0F;
  }
  __syncthreads();
  const int tiles = (p.positions + kFewSourcesPositions - 1) / kFewSourcesPositions;
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x) * kFewSourcesWarps + warp; tile < tiles;
       tile += static_cast<int>(gridDim.x) * kFewSourcesWarps) {
    const int first = tile * kFewSourcesPositions + lane / 4;
    const Places at(p, first);
    float sums[kGroups / 2][kTiles][4] = {};
#pragma unroll 1
    for (int step = 0; step < p.steps; ++step) {
      std::uint32_t a[kGroups / 2][4];
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        T values[kGroups][kPerUnit];
#pragma unroll
        for (int e = 0; e < kPerUnit; ++e) {
          const SourceTap tap = taps[step * kDepth + (lane % 4 + 4 * u) * kPerUnit + e];
#pragma unroll
          for (int i = 0; i < kGroups; ++i) {
            values[i][e] = at.reaches(p, i, tap) ? operands.source[at.from[i] + tap.offset] : from_float<T>(0.0F);
          }
        }
#pragma unroll
        for (int i = 0; i < kGroups; ++i) a[i / 2][2 * u + i % 2] = unit_of(values[i]);
      }
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const uint2 units = filters[(step * kTiles + j) * 32 + lane];
        const std::uint32_t b[2] = {units.x, units.y};
#pragma unroll
        for (int i = 0; i < kGroups / 2; ++i) mma_multiply<kArithmetic>(sums[i][j], a[i], b);
      }
    }
    operands.activate.visit([&](const auto& f) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float bias = biases[kFewSourcesColumns * j + lane % 4 * 2 + e];
#pragma unroll
          for (int i = 0; i < kGroups; ++i) {
            float& sum = sums[i / 2][j][i % 2 * 2 + e];
            sum = f(sum + bias);
          }
        }
      }
    });
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      float values[kTiles][2];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) values[j][e] = sums[i / 2][j][i % 2 * 2 + e];
      }
      store(p, operands.result, first + i * kRows, first_result, lane, values);
    }
  }
}

}  // namespace adjoint::cuda::few_sources

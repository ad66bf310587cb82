// conv, and conv_transpose of stride 1, with few products a result (short_sums/plan.h describes how the work is cut).
// Source elements outside count as zeros and are multiplied with weights: a weight that is not finite also reaches
// results whose product with it is outside.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/short_sums/plan.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda::short_sums {

template <class T>
struct Operands {
  const T* source;
  const T* filter;
  const T* bias;  // or null
  T* result;
  T* linear;                       // or null: receives sum and bias before the activation
  bool loads_packs, stores_packs;  // a thread's positions are one Pack in the source, and in results
  Activate<float> activate;        // of sum and bias
};

/// A term's weights of a block of channels; 0 for channels past the last.
template <int kChannels, class T>
__device__ __forceinline__ void load_weights(const ShortSumsPlan& p, const ShortSumsTerm& term, const T* filter,
                                             int channels, T (&weights)[kChannels]) {
#pragma unroll
  for (int m = 0; m < kChannels; ++m)
    weights[m] = m < channels ? filter[m * p.filter_channel + term.weight] : from_float<T>(0.0F);
}

/// A term's source elements for a thread's positions. `source`: of tap 0 of channel 0, inside or not.
template <bool kPacked, bool kAligned, int kPositions, class T>
__device__ __forceinline__ void load(const ShortSumsPlan& p, const ShortSumsPlace& place, const ShortSumsTerm& term,
                                     const T* source, Pack<T, kPositions>& values) {
  if constexpr (kPacked && kAligned) {
    values = *reinterpret_cast<const Pack<T, kPositions>*>(source + term.offset);
  } else if constexpr (kPacked) {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) values.values[i] = source[term.offset + i];
  } else {
    const bool row = static_cast<unsigned>(place.source_row + term.row) < static_cast<unsigned>(p.source[0]);
    const int column = place.source_column + term.column;
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      const bool inside = row && static_cast<unsigned>(column + i * p.step[1]) < static_cast<unsigned>(p.source[1]);
      values.values[i] = inside ? source[term.offset + i * p.step[1]] : from_float<T>(0.0F);
    }
  }
}

/// Adds kTerms products to each sum; their source elements are in flight together.
template <bool kPacked, bool kAligned, int kTerms, int kChannels, int kPositions, class T>
__device__ __forceinline__ void add_terms(const ShortSumsPlan& p, const ShortSumsPlace& place,
                                          const ShortSumsTerm* terms, const float* weights, const T* source,
                                          float (&sums)[kChannels][kPositions]) {
  Pack<T, kPositions> values[kTerms];
#pragma unroll
  for (int u = 0; u < kTerms; ++u) load<kPacked, kAligned>(p, place, terms[u], source, values[u]);
#pragma unroll
  for (int u = 0; u < kTerms; ++u) {
    float value[kPositions];
#pragma unroll
    for (int i = 0; i < kPositions; ++i) value[i] = to_float(values[u].values[i]);
    const auto* of = reinterpret_cast<const Pack<float, 4>*>(weights + u * kChannels);
#pragma unroll
    for (int m = 0; m < kChannels; m += 4) {
      const Pack<float, 4> four = of[m / 4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int i = 0; i < kPositions; ++i) sums[m + j][i] = fmaf(value[i], four.values[j], sums[m + j][i]);
      }
    }
  }
}

template <bool kPacked, bool kAligned, int kChannels, int kPositions, class T>
__device__ __forceinline__ void add_all(const ShortSumsPlan& p, const ShortSumsPlace& place, const ShortSumsTerm* terms,
                                        const float* weights, const T* source, float (&sums)[kChannels][kPositions]) {
  int n = 0;
#pragma unroll 1
  for (; n + kShortAtOnce <= p.terms; n += kShortAtOnce)
    add_terms<kPacked, kAligned, kShortAtOnce>(p, place, terms + n, weights + n * kChannels, source, sums);
#pragma unroll 1
  for (; n < p.terms; ++n) add_terms<kPacked, kAligned, 1>(p, place, terms + n, weights + n * kChannels, source, sums);
}

template <class T, int kChannels, int kPositions, bool kPacked>
__global__ void __launch_bounds__(kShortThreads)
    short_sums_kernel(const __grid_constant__ ShortSumsPlan p, const Operands<T> operands) {
  auto* const terms = reinterpret_cast<ShortSumsTerm*>(ptx::dynamic_smem());
  auto* const weights = reinterpret_cast<float*>(terms + p.terms);
  int index = static_cast<int>(blockIdx.x);
  const int first_channel = index % p.channel_blocks * kChannels;
  index /= p.channel_blocks;
  const int thread = static_cast<int>(threadIdx.x), group = index % p.groups;
  const int n = index / p.groups * kShortThreads + thread;
  T own[kChannels];
  if (thread < p.terms) {
    const T* filter = operands.filter + group * p.filter_group + first_channel * p.filter_channel;
    terms[thread] = short_sums_term(p, thread);
    load_weights(p, terms[thread], filter, p.channels - first_channel, own);
  }
  const ShortSumsPlace place = short_sums_place(p, min(n, p.total - 1));
  const int height = p.source[0], width = p.source[1];
  const int image = place.sample * p.groups + group;
  const T* source = operands.source + (image * p.source_channels * height + place.source_row) * width;
  source += place.source_column;
  if (thread < p.terms) {
#pragma unroll
    for (int m = 0; m < kChannels; ++m) weights[thread * kChannels + m] = to_float(own[m]);
  }
  __syncthreads();
  if (n >= p.total) return;

  float sums[kChannels][kPositions] = {};
  if (kPacked && !operands.loads_packs) {
    add_all<kPacked, false>(p, place, terms, weights, source, sums);
  } else {
    add_all<kPacked, true>(p, place, terms, weights, source, sums);
  }

  const int result_width = p.result[1], plane = p.result[0] * result_width;
  const int at = (image * p.channels + first_channel) * plane + place.row * result_width + place.column;
  const auto store = [&](T* to, const float(&values)[kPositions]) {
    Pack<T, kPositions> rounded;
#pragma unroll
    for (int i = 0; i < kPositions; ++i) rounded.values[i] = from_float<T>(values[i]);
    if (operands.stores_packs) {
      *reinterpret_cast<Pack<T, kPositions>*>(to) = rounded;
      return;
    }
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      if (place.column + i < result_width) to[i] = rounded.values[i];
    }
  };
#pragma unroll
  for (int m = 0; m < kChannels; ++m) {
    if (first_channel + m >= p.channels) break;
    if (operands.bias != nullptr) {
      const float bias = to_float(operands.bias[group * p.channels + first_channel + m]);
#pragma unroll
      for (int i = 0; i < kPositions; ++i) sums[m][i] += bias;
    }
    if (operands.linear != nullptr) store(operands.linear + at + m * plane, sums[m]);
    operands.activate(sums[m]);
    store(operands.result + at + m * plane, sums[m]);
  }
}

template <class T>
using Kernel = void (*)(ShortSumsPlan, Operands<T>);

template <class T, int kChannels>
Kernel<T> select_positions(const ShortSumsPlan& p) {
  return p.packed != 0 ? short_sums_kernel<T, kChannels, 4, true> : short_sums_kernel<T, kChannels, 2, false>;
}

/// The plan's kernel.
template <class T>
Kernel<T> select_kernel(const ShortSumsPlan& p) {
  return p.channel_block == 4   ? select_positions<T, 4>(p)
         : p.channel_block == 8 ? select_positions<T, 8>(p)
                                : select_positions<T, 12>(p);
}

template <class T>
Operands<T> operands_of(const ShortSumsPlan& p, const ConvProblem& problem) {
  const auto packs = [&](const void* data) { return p.packed != 0 ? is_aligned<T, 4>(data) : is_aligned<T, 2>(data); };
  const bool stores =
      p.result[1] % p.positions == 0 && packs(problem.out) && (problem.linear == nullptr || packs(problem.linear));
  return {static_cast<const T*>(problem.first),
          static_cast<const T*>(problem.second),
          static_cast<const T*>(problem.bias),
          static_cast<T*>(problem.out),
          static_cast<T*>(problem.linear),
          packs(problem.first),
          stores,
          Activate<float>(problem.activation)};
}

}  // namespace adjoint::cuda::short_sums

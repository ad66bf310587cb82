// Fused attention's scores between the two products: their selection, masks, dropout.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/attention/cuda/problem.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cmath>
#include <cstdint>

namespace adjoint::cuda::attention {

/// The position of a warp's 16 rows of scores and a tile of columns in (N, H, L, S).
template <class F>
struct Scores {
  using Element = typename ArithmeticTraits<F::kArithmetic>::Element;
  static constexpr int kCount = F::kColumns / 2;

  const Problem& p;
  int pair, row, column;  // pair: number of batch and head of queries

  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ __forceinline__ int row_of(int i) const { return row + lane() / 4 + 8 * (i % 4 / 2); }
  __device__ __forceinline__ int column_of(int i) const { return column + 8 * (i / 4) + 2 * (lane() % 4) + i % 2; }
  __device__ __forceinline__ int query_of(int i) const { return F::kByKey ? column_of(i) : row_of(i); }
  __device__ __forceinline__ int key_of(int i) const { return F::kByKey ? row_of(i) : column_of(i); }

  /// True if the tile has keys behind the last, or keys after a query.
  __device__ __forceinline__ bool is_cut() const {
    if (F::kByKey) return p.causal && column < row + 15;  // padding has no weight, and rows of padding are not stored
    return column + F::kColumns > p.keys || (p.causal && column + F::kColumns - 1 > row);
  }

  /// Sets scores that do not count to -infinity. With an added mask, it multiplies the others by `scale` and adds the
  /// mask.
  __device__ __forceinline__ void cut(float (&scores)[kCount]) const {
    if (is_cut()) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (key_of(i) >= p.keys || (p.causal && key_of(i) > query_of(i))) scores[i] = -INFINITY;
      }
    }
    if (p.mask.data == nullptr) return;
    const std::int64_t* const strides = p.mask.strides;
    const std::int64_t first = pair / p.heads * strides[0] + pair % p.heads * strides[1];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int query = query_of(i), key = key_of(i);
      const std::int64_t at = first + query * strides[2] + key * strides[3];
      const bool inside = query < p.queries && key < p.keys;
      if (p.mask.added) {
        const float more = inside ? to_float(static_cast<const Element*>(p.mask.data)[at]) : 0.0F;
        scores[i] = fmaf(scores[i], p.scale, more);
      } else if (inside && !static_cast<const bool*>(p.mask.data)[at]) {
        scores[i] = -INFINITY;
      }
    }
  }

  /// Bit i % 32 of word i / 32: weight i stays. The numbers are those that fill a tensor (N, H, L, S) at the position,
  /// so the composed form drops the same weights.
  struct Kept {
    std::uint32_t words[(kCount + 31) / 32];
    __device__ __forceinline__ bool operator[](int i) const { return (words[i / 32] >> (i % 32) & 1U) != 0; }
  };
  __device__ __forceinline__ Kept kept() const {
    Kept kept{};
    const philox::Position& at = p.dropout.at;
    const std::uint64_t first = at.base == nullptr ? at.offset : at.offset + *at.base;
    const auto stays = [&](const philox::Block& block, std::uint64_t number) {
      const bool second = number % 2 != 0;
      const std::uint64_t bits =
          std::uint64_t{second ? block.word[2] : block.word[0]} << 32 | (second ? block.word[3] : block.word[1]);
      return bits >> 11 < p.dropout.threshold;
    };
    const std::uint64_t of_head = static_cast<std::uint64_t>(pair) * p.queries;
    const auto number_of = [&](int i) { return (of_head + query_of(i)) * p.keys + key_of(i); };
#pragma unroll
    for (int w = 0; w < (kCount + 31) / 32; ++w) {
      std::uint32_t word = 0;
#pragma unroll 1
      for (int bit = 0; bit < min(kCount, 32); bit += 2) {
        const int i = 32 * w + bit;
        const std::uint64_t number = number_of(i), next = number_of(i + 1);
        const philox::Block block = philox::generate(at.seed, first + number / 2);
        const bool both = next / 2 == number / 2;
        if (stays(block, number)) word |= 1U << bit;
        if (stays(both ? block : philox::generate(at.seed, first + next / 2), next)) word |= 2U << bit;
      }
      kept.words[w] = word;
    }
    return kept;
  }
};

}  // namespace adjoint::cuda::attention

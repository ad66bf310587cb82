// What a functor makes of pairs of elements, added up on the CPU: a block at a time into a buffer that stays in the L1
// cache, as elements are (stages.h).
#pragma once

#include <adjoint/core/convert.h>
#include <adjoint/ops/reduce/cpu/stages.h>

#include <algorithm>
#include <cstdint>

namespace adjoint::cpu {

/// out[i] = f.value(x[i], y[i]), computed in the type that T is computed in.
template <class F, class T, class Out>
void pair_values(const F& f, const T* x, const T* y, Out* out, std::int64_t count) {
  using C = compute_t<T>;
  for (std::int64_t i = 0; i < count; ++i) out[i] = convert<Out>(f.value(convert<C>(x[i]), convert<C>(y[i])));
}

/// sums[c]: of column c of a chunk that begins at x and y; blocks' sums are added up in Acc.
template <class Acc, class F, class T>
void sum_pairs(const F& f, const T* x, const T* y, const Chunk& chunk, Acc* sums) {
  using C = compute_t<T>;
  constexpr std::int64_t kBlock = 1024;
  static_assert(kBlock >= kMaxLanes);
  const std::int64_t columns = chunk.columns, most = kBlock / columns;
  std::fill(sums, sums + columns, Acc{0});
  for (std::int64_t first = 0; first < chunk.rows; first += most) {
    const std::int64_t rows = std::min(most, chunk.rows - first);
    C block[kBlock], total[kMaxLanes];
    if (columns == chunk.inner) {
      pair_values(f, x + first * columns, y + first * columns, block, rows * columns);
    } else {
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t at = (first + r) * chunk.inner;
        pair_values(f, x + at, y + at, block + r * columns, columns);
      }
    }
    sum_chunk(reduce::Total<reduce::Sum, C, C>{}, block, {rows, columns, columns, rows_abreast(rows, columns)}, total);
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += static_cast<Acc>(total[c]);
  }
}

}  // namespace adjoint::cpu

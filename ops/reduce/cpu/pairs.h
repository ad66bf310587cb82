// Sums of a functor of pairs of elements on the CPU: a block at a time into a buffer that stays in the L1 cache, where
// they are added up like elements (stages.h).
#pragma once

#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/convert_spans.h>
#include <adjoint/ops/reduce/cpu/stages.h>

#include <algorithm>
#include <cstdint>

namespace adjoint::cpu {

/// out[i] = f.value(x[i], y[i]), computed in T's type of computation.
template <class F, class T, class Out>
void pair_values(const F& f, const T* x, const T* y, Out* out, std::int64_t count) {
  if constexpr (is_reduced_float<T>) {
    float wide_x[kConvertBlock], wide_y[kConvertBlock];
    for (std::int64_t first = 0; first < count; first += kConvertBlock) {
      const std::int64_t n = std::min(kConvertBlock, count - first);
      widen_span(x + first, wide_x, n);
      widen_span(y + first, wide_y, n);
      if constexpr (is_reduced_float<Out>) {
        pair_values(f, wide_x, wide_y, wide_x, n);
        narrow_span(wide_x, out + first, n);
      } else {
        pair_values(f, wide_x, wide_y, out + first, n);
      }
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert<Out>(f.value(x[i], y[i]));
  }
}

/// A functor's pair_values() behind a pointer, so that the code that adds them up is compiled once per dtype.
template <class T>
struct PairValues {
  void (*run)(const void* functor, const T* x, const T* y, compute_t<T>* out, std::int64_t count);
  const void* functor;

  /// Keeps a reference to `f`.
  template <class F>
  static PairValues of(const F& f) {
    return {[](const void* held, const T* x, const T* y, compute_t<T>* out, std::int64_t count) {
              pair_values(*static_cast<const F*>(held), x, y, out, count);
            },
            &f};
  }
  void operator()(const T* x, const T* y, compute_t<T>* out, std::int64_t count) const {
    run(functor, x, y, out, count);
  }
};

/// sums[c] is the sum of column c of a chunk that begins at x and y; blocks' sums are added up in Acc.
template <class Acc, class T>
void sum_pairs(const PairValues<T>& values, const T* x, const T* y, const Chunk& chunk, Acc* sums) {
  using C = compute_t<T>;
  constexpr std::int64_t kBlock = 1024;
  static_assert(kBlock >= kMaxLanes);
  const std::int64_t columns = chunk.columns, most = kBlock / columns;
  std::fill(sums, sums + columns, Acc{0});
  for (std::int64_t first = 0; first < chunk.rows; first += most) {
    const std::int64_t rows = std::min(most, chunk.rows - first);
    C block[kBlock], total[kMaxLanes];
    if (columns == chunk.inner) {
      values(x + first * columns, y + first * columns, block, rows * columns);
    } else {
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t at = (first + r) * chunk.inner;
        values(x + at, y + at, block + r * columns, columns);
      }
    }
    sum_chunk(reduce::Total<reduce::Sum, C, C>{}, block, {rows, columns, columns, rows_abreast(rows, columns)}, total);
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += static_cast<Acc>(total[c]);
  }
}

}  // namespace adjoint::cpu

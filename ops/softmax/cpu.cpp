// softmax on the CPU. A task has blocks of neighbouring columns and passes over a block three times: for the largest
// element of each column; for the exponentials and, while they are in the L1 cache, their sums; and for the quotients.
#include <adjoint/core/base/cpu_targets.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/tensor/convert_spans.h>
#include <adjoint/ops/reduce/cpu/stages.h>
#include <adjoint/ops/softmax/kernels.h>

#include <algorithm>
#include <type_traits>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kColumns = 64;          // of a block: four cache lines of float32
constexpr std::int64_t kChunkElements = 4096;  // added up together: 16 KB of float32

/// Rows of a block's numbers, `pitch` apart.
struct Rows {
  std::int64_t count, columns, pitch;

  Rows part(std::int64_t rows) const { return {rows, columns, pitch}; }
  Rows dense() const { return {count, columns, columns}; }
};

/// totals[c] is column c's total under Op. It has room for kMaxLanes.
template <class Op, class A, class T>
void reduce_columns(const T* data, const Rows& rows, A* totals) {
  const auto& [count, columns, pitch] = rows;
  const std::int64_t abreast = columns == pitch ? rows_abreast(count, columns) : 1;
  sum_chunk(reduce::Total<Op, A, A>{}, data, Chunk{count, columns, pitch, abreast}, totals);
}

/// f(i, j, c) for each number: its place, its place in dense rows, and its lane, which Lanes maps to its column.
/// Adjacent rows are taken several at a time, so that loops are long enough for vectors.
template <class F>
void for_each(const Rows& rows, const F& f) {
  const auto& [count, columns, pitch] = rows;
  const bool adjoin = columns == pitch;
  const std::int64_t width = adjoin ? kColumns / columns * columns : columns;
  const std::int64_t step = adjoin ? width : pitch, numbers = count * columns;
  for (std::int64_t done = 0, place = 0; done < numbers; done += width, place += step) {
    const std::int64_t lanes = std::min(width, numbers - done);
#if !defined(__clang__)
#pragma GCC ivdep
#endif
    for (std::int64_t lane = 0; lane < lanes; ++lane) f(place + lane, done + lane, lane);
  }
}

/// One value per column, for the lanes of for_each().
template <class A>
class Lanes {
 public:
  template <class From>
  Lanes(const From* of_columns, std::int64_t columns) {
    for (std::int64_t lane = 0, c = 0; lane < kColumns; ++lane) {
      values_[lane] = static_cast<A>(of_columns[c]);
      if (++c == columns) c = 0;
    }
  }
  A operator[](std::int64_t lane) const { return values_[lane]; }

 private:
  A values_[kColumns];
};

template <class A>
struct Summands {
  const A* data;
  Rows rows;
};

/// Each column's sum of make(first, rows), the Summands of `rows` rows from row `first` on.
template <class A, class Make>
Lanes<A> column_sums(const Rows& all, const Make& make) {
  double totals[kColumns] = {};  // float64 from one chunk to the next, so that errors do not grow with the extent
  const std::int64_t most = std::max(std::int64_t{1}, kChunkElements / all.columns);
  for (std::int64_t first = 0; first < all.count; first += most) {
    const Summands<A> summands = make(first, all.part(std::min(most, all.count - first)));
    A sums[kMaxLanes];
    reduce_columns<reduce::Sum>(summands.data, summands.rows, sums);
    for (std::int64_t c = 0; c < all.columns; ++c) totals[c] += static_cast<double>(sums[c]);
  }
  return Lanes<A>(totals, all.columns);
}

/// `y` may be `x`. `buffer` has room for a chunk.
template <class A>
void softmax_block(const A* x, A* y, const Rows& all, bool log, A* buffer) {
  A tops[kMaxLanes];
  reduce_columns<reduce::Max>(x, all, tops);
  const Lanes<A> largest(tops, all.columns);
  const auto exponentials = [&](std::int64_t first, const Rows& rows) -> Summands<A> {
    const A* const from = x + first * all.pitch;
    if (log) {
      for_each(rows, [=, &largest](auto i, auto j, auto c) { buffer[j] = scalar::exp(from[i] - largest[c]); });
      return {buffer, rows.dense()};
    }
    A* const to = y + first * all.pitch;
    for_each(rows, [=, &largest](auto i, auto, auto c) { to[i] = scalar::exp(from[i] - largest[c]); });
    return {to, rows};
  };
  const Lanes<A> sums = column_sums<A>(all, exponentials);
  if (log) {
    A logs[kColumns];
    for (std::int64_t c = 0; c < all.columns; ++c) logs[c] = scalar::log(sums[c]);
    const Lanes<A> log_sums(logs, all.columns);
    for_each(all, [=, &largest, &log_sums](auto i, auto, auto c) { y[i] = (x[i] - largest[c]) - log_sums[c]; });
  } else {
    for_each(all, [=, &sums](auto i, auto, auto c) { y[i] = y[i] / sums[c]; });
  }
}

/// `out` may be `g`. `buffer` has room for a chunk.
template <class A>
void gradient_block(const A* g, const A* y, A* out, const Rows& all, bool log, A* buffer) {
  const auto terms = [&](std::int64_t first, const Rows& rows) -> Summands<A> {
    const A *const of_g = g + first * all.pitch, *const of_y = y + first * all.pitch;
    if (log) {
      for_each(rows, [=](auto i, auto j, auto) { buffer[j] = of_g[i]; });
    } else {
      for_each(rows, [=](auto i, auto j, auto) { buffer[j] = of_g[i] * of_y[i]; });
    }
    return {buffer, rows.dense()};
  };
  const Lanes<A> sums = column_sums<A>(all, terms);
  if (log) {
    for_each(all, [=, &sums](auto i, auto, auto c) { out[i] = g[i] - scalar::exp(y[i]) * sums[c]; });
  } else {
    for_each(all, [=, &sums](auto i, auto, auto c) { out[i] = g[i] * y[i] - y[i] * sums[c]; });
  }
}

/// Both functions, compiled for the CPU's instruction set.
template <class A>
void compute_block(const A* x, A* y, const Rows& rows, bool log, A* buffer) {
  run_for_isa([=, &rows] { softmax_block(x, y, rows, log, buffer); });
}
template <class A>
void compute_gradient(const A* g, const A* y, A* out, const Rows& rows, bool log, A* buffer) {
  run_for_isa([=, &rows] { gradient_block(g, y, out, rows, log, buffer); });
}

/// Copies a block's rows between a tensor and a dense copy in float32.
template <class T>
void read_rows(const T* from, const Rows& rows, float* dense) {
  for (std::int64_t row = 0; row < rows.count; ++row, from += rows.pitch, dense += rows.columns) {
    if constexpr (is_reduced_float<T>) {
      widen_span(from, dense, rows.columns);
    } else {
      std::copy(from, from + rows.columns, dense);
    }
  }
}
template <class T>
void write_rows(const float* dense, const Rows& rows, T* to) {
  for (std::int64_t row = 0; row < rows.count; ++row, to += rows.pitch, dense += rows.columns) {
    if constexpr (is_reduced_float<T>) {
      narrow_span(dense, to, rows.columns);
    } else {
      std::copy(dense, dense + rows.columns, to);
    }
  }
}

/// block(place, rows, buffer) for every block: its start, and room for kChunkElements numbers, or for all numbers of
/// the block, followed by room for `copies` dense copies of the block.
template <class A, class Block>
void for_blocks(const SoftmaxAttr& attr, std::int64_t copies, const Block& block) {
  const std::int64_t extent = attr.extent, inner = attr.inner;
  const std::int64_t most = std::min(inner, kColumns), blocks = (inner + kColumns - 1) / kColumns;
  const auto room = static_cast<std::size_t>(std::min(kChunkElements, extent * most) + copies * extent * most);
  parallel_ranges(attr.outer * blocks, std::max<std::int64_t>(1, kTaskElements / (extent * most)),
                  [&](std::int64_t begin, std::int64_t end) {
                    ScratchVector<A> memory;
                    memory.reserve(room);  // not initialised: a block writes before it reads
                    for (std::int64_t item = begin; item < end; ++item) {
                      const std::int64_t column = item % blocks * kColumns;
                      const Rows rows{extent, std::min(kColumns, inner - column), inner};
                      block(item / blocks * extent * inner + column, rows, memory.data());
                    }
                  });
}

/// The start of a block's dense copies in its buffer.
template <class A>
A* copies_in(A* buffer, const Rows& rows) {
  return buffer + std::min(kChunkElements, rows.count * std::min(rows.pitch, kColumns));
}

}  // namespace

void softmax(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr) {
  visit_softmax(in[0].dtype(), out.dtype(), [&]<class T, class R>() {
    using A = compute_t<T>;
    const T* const x = in[0].data<T>();
    R* const y = out.mutable_data<R>();
    for_blocks<A>(attr, is_reduced_float<T> ? 1 : 0, [=, &attr](std::int64_t at, const Rows& rows, A* buffer) {
      if constexpr (is_reduced_float<T>) {
        A* const dense = copies_in(buffer, rows);
        read_rows(x + at, rows, dense);
        compute_block(dense, dense, rows.dense(), attr.log, buffer);
        write_rows(dense, rows, y + at);
      } else {
        compute_block(x + at, y + at, rows, attr.log, buffer);
      }
    });
  });
}

void softmax_gradient(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr) {
  visit_softmax(out.dtype(), in[0].dtype(), [&]<class T, class R>() {
    using A = compute_t<T>;
    const R *const g = in[0].data<R>(), *const y = in[1].data<R>();
    T* const result = out.mutable_data<T>();
    for_blocks<A>(attr, is_reduced_float<T> ? 2 : 0, [=, &attr](std::int64_t at, const Rows& rows, A* buffer) {
      if constexpr (is_reduced_float<T>) {
        A *const dense_g = copies_in(buffer, rows), *const dense_y = dense_g + rows.count * rows.columns;
        read_rows(g + at, rows, dense_g);
        read_rows(y + at, rows, dense_y);
        compute_gradient(dense_g, dense_y, dense_g, rows.dense(), attr.log, buffer);
        write_rows(dense_g, rows, result + at);
      } else {
        compute_gradient(g + at, y + at, result + at, rows, attr.log, buffer);
      }
    });
  });
}

}  // namespace adjoint::cpu

// softmax on the CPU. A task has blocks of neighbouring columns and passes over a block three times: for the largest of
// each column; for the exponentials and, while they are in the L1 cache, their sums; and for the quotients.
#include <adjoint/core/cpu_targets.h>
#include <adjoint/core/parallel.h>
#include <adjoint/ops/reduce/cpu/stages.h>
#include <adjoint/ops/softmax/kernels.h>

#include <algorithm>
#include <memory>
#include <type_traits>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kColumns = 64;          // of a block: four cache lines of float32
constexpr std::int64_t kChunkElements = 4096;  // that are added up together: 16 KB of float32

/// Rows of a block's numbers, `pitch` apart.
struct Rows {
  std::int64_t count, columns, pitch;

  Rows part(std::int64_t rows) const { return {rows, columns, pitch}; }
  Rows dense() const { return {count, columns, columns}; }
};

/// totals[c]: of column c under Op. There is room for kMaxLanes.
template <class Op, class A, class T>
void reduce_columns(const T* data, const Rows& rows, A* totals) {
  const auto& [count, columns, pitch] = rows;
  const std::int64_t abreast = columns == pitch ? rows_abreast(count, columns) : 1;
  sum_chunk(reduce::Total<Op, A, A>{}, data, Chunk{count, columns, pitch, abreast}, totals);
}

/// f(i, j, c) for each number: its place, its place in dense rows, and its lane, from which Lanes tells its column.
/// Rows that adjoin are taken several at a time, so that loops are long enough for vectors.
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

/// A value a column, for the lanes of for_each().
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

/// Each column's sum of what make(first, rows) gives for `rows` from row `first` on: Summands of as many rows.
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

/// Results in 16 bits are not where exponentials may wait for their sum.
template <class T>
inline constexpr bool kWaitInResult = std::is_same_v<T, compute_t<T>>;

template <class T, class R>
void softmax_block(const T* x, R* y, const Rows& all, bool log, compute_t<T>* buffer) {
  using A = compute_t<T>;
  A tops[kMaxLanes];
  reduce_columns<reduce::Max>(x, all, tops);
  const Lanes<A> largest(tops, all.columns);
  const auto exponentials = [&](std::int64_t first, const Rows& rows) -> Summands<A> {
    const T* const from = x + first * all.pitch;
    if constexpr (kWaitInResult<R>) {
      if (!log) {
        R* const to = y + first * all.pitch;
        for_each(rows, [=, &largest](auto i, auto, auto c) { to[i] = scalar::exp(convert<A>(from[i]) - largest[c]); });
        return {to, rows};
      }
    }
    A* const to = log ? buffer : buffer + first * all.columns;
    for_each(rows, [=, &largest](auto i, auto j, auto c) { to[j] = scalar::exp(convert<A>(from[i]) - largest[c]); });
    return {to, rows.dense()};
  };
  const Lanes<A> sums = column_sums<A>(all, exponentials);
  if (log) {
    A logs[kColumns];
    for (std::int64_t c = 0; c < all.columns; ++c) logs[c] = scalar::log(sums[c]);
    const Lanes<A> log_sums(logs, all.columns);
    for_each(all, [=, &largest, &log_sums](auto i, auto, auto c) {
      y[i] = convert<R>((convert<A>(x[i]) - largest[c]) - log_sums[c]);
    });
  } else if constexpr (kWaitInResult<R>) {
    for_each(all, [=, &sums](auto i, auto, auto c) { y[i] = y[i] / sums[c]; });
  } else {
    for_each(all, [=, &sums](auto i, auto j, auto c) { y[i] = convert<R>(buffer[j] / sums[c]); });
  }
}

template <class T, class R>
void gradient_block(const R* g, const R* y, T* out, const Rows& all, bool log, compute_t<T>* buffer) {
  using A = compute_t<T>;
  const auto terms = [&](std::int64_t first, const Rows& rows) -> Summands<A> {
    const R *const of_g = g + first * all.pitch, *const of_y = y + first * all.pitch;
    if (log) {
      for_each(rows, [=](auto i, auto j, auto) { buffer[j] = convert<A>(of_g[i]); });
    } else {
      for_each(rows, [=](auto i, auto j, auto) { buffer[j] = convert<A>(of_g[i]) * convert<A>(of_y[i]); });
    }
    return {buffer, rows.dense()};
  };
  const Lanes<A> sums = column_sums<A>(all, terms);
  if (log) {
    for_each(all, [=, &sums](auto i, auto, auto c) {
      out[i] = convert<T>(convert<A>(g[i]) - scalar::exp(convert<A>(y[i])) * sums[c]);
    });
  } else {
    for_each(all, [=, &sums](auto i, auto, auto c) {
      const A value = convert<A>(y[i]);
      out[i] = convert<T>(convert<A>(g[i]) * value - value * sums[c]);
    });
  }
}

/// block(place, rows, buffer) for every block, compiled for the CPU's instruction set: where it begins, and room for
/// kChunkElements numbers, or for all of the block's.
template <class A, class Block>
void for_blocks(const SoftmaxAttr& attr, bool for_all, const Block& block) {
  const std::int64_t extent = attr.extent, inner = attr.inner;
  const std::int64_t most = std::min(inner, kColumns), blocks = (inner + kColumns - 1) / kColumns;
  const auto room = static_cast<std::size_t>(for_all ? extent * most : std::min(kChunkElements, extent * most));
  parallel_ranges(attr.outer * blocks, std::max<std::int64_t>(1, kTaskElements / (extent * most)),
                  [&](std::int64_t begin, std::int64_t end) {
                    const auto memory = std::make_unique_for_overwrite<A[]>(room);
                    A* const buffer = memory.get();
                    run_for_isa([=, &block] {
                      for (std::int64_t item = begin; item < end; ++item) {
                        const std::int64_t column = item % blocks * kColumns;
                        const Rows rows{extent, std::min(kColumns, inner - column), inner};
                        block(item / blocks * extent * inner + column, rows, buffer);
                      }
                    });
                  });
}

}  // namespace

void softmax(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr) {
  visit_softmax(in[0].dtype(), out.dtype(), [&]<class T, class R>() {
    using A = compute_t<T>;
    const T* const x = in[0].data<T>();
    R* const y = out.mutable_data<R>();
    for_blocks<A>(attr, !attr.log && !kWaitInResult<R>, [=, &attr](std::int64_t at, const Rows& rows, A* buffer) {
      softmax_block(x + at, y + at, rows, attr.log, buffer);
    });
  });
}

void softmax_gradient(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr) {
  visit_softmax(out.dtype(), in[0].dtype(), [&]<class T, class R>() {
    using A = compute_t<T>;
    const R *const g = in[0].data<R>(), *const y = in[1].data<R>();
    T* const result = out.mutable_data<T>();
    for_blocks<A>(attr, false, [=, &attr](std::int64_t at, const Rows& rows, A* buffer) {
      gradient_block(g + at, y + at, result + at, rows, attr.log, buffer);
    });
  });
}

}  // namespace adjoint::cpu

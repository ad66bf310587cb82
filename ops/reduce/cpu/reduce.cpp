// Sums and maxima on the CPU.
//
// A chunk is rows of `inner` elements. They are dealt to lanes, element i of the chunk to lane i mod (m * inner), with
// m rows side by side where rows are short: one loop that vectorises whatever the shape. Lanes add up in blocks of
// kBlockSteps, so that rounding errors grow with two short sums instead of one long one; then the m rows fold, by
// halves, into one.
#include <adjoint/core/check.h>
#include <adjoint/core/fill.h>
#include <adjoint/core/parallel.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/reduce/combine.h>
#include <adjoint/ops/reduce/kernels.h>

#include <algorithm>
#include <bit>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kLanes = 32;      // wanted side by side: eight SSE registers of float32
constexpr std::int64_t kMaxLanes = 256;  // columns that one task handles: its sums stay in the L1 cache
constexpr std::int64_t kBlockSteps = 32;
constexpr std::int64_t kShortExtent = 64;  // below, rows do not stand side by side: folding costs more than it saves
constexpr std::int64_t kShortRow = 512;    // below, a row has lanes of its own
constexpr std::int64_t kArgmaxColumns = 64;
constexpr std::int64_t kTaskElements = 32768;

// Rows side by side.
std::int64_t rows_abreast(std::int64_t extent, std::int64_t inner) {
  if (inner >= kLanes || extent < kShortExtent) return 1;
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(kLanes / inner)));
}

std::int64_t chunk_rows(std::int64_t extent, std::int64_t inner) {
  const std::int64_t abreast = rows_abreast(extent, inner);
  const std::int64_t lanes = abreast * std::min(inner, kMaxLanes);
  return abreast * std::max(kBlockSteps, kTaskElements / lanes);
}

// sums[l] = the total over steps s of data[s * pitch + l]; the last `tail` elements belong to the first lanes.
template <class Op, class A, class T>
void sum_lanes(const T* data, std::int64_t steps, std::int64_t pitch, std::int64_t lanes, std::int64_t tail, A* sums) {
  A block[kMaxLanes];
  std::fill(sums, sums + lanes, Op::template identity<A>());
  for (std::int64_t first = 0; first < steps; first += kBlockSteps) {
    const std::int64_t last = std::min(steps, first + kBlockSteps);
    std::fill(block, block + lanes, Op::template identity<A>());
    for (std::int64_t s = first; s < last; ++s) {
      const T* row = data + s * pitch;
      for (std::int64_t l = 0; l < lanes; ++l) block[l] = Op::combine(block[l], convert<A>(row[l]));
    }
    for (std::int64_t l = 0; l < lanes; ++l) sums[l] = Op::combine(sums[l], block[l]);
  }
  const T* rest = data + steps * pitch;
  for (std::int64_t l = 0; l < tail; ++l) sums[l] = Op::combine(sums[l], convert<A>(rest[l]));
}

// A short row, in a few lanes of its own.
template <class Op, class A, class T>
A sum_short_row(const T* data, std::int64_t extent) {
  constexpr std::int64_t kRowLanes = 8;
  A sums[kRowLanes];
  std::fill(sums, sums + kRowLanes, Op::template identity<A>());
  std::int64_t i = 0;
  for (; i + kRowLanes <= extent; i += kRowLanes) {
#pragma GCC unroll 1  // left to itself, GCC unrolls the lanes into scalars
    for (std::int64_t l = 0; l < kRowLanes; ++l) sums[l] = Op::combine(sums[l], convert<A>(data[i + l]));
  }
  A sum = Op::template identity<A>();
  for (; i < extent; ++i) sum = Op::combine(sum, convert<A>(data[i]));
  if (extent < kRowLanes) return sum;
  for (std::int64_t half = kRowLanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) sums[l] = Op::combine(sums[l], sums[half + l]);
  }
  return Op::combine(sums[0], sum);
}

// One chunk: `rows` rows from `data` on, `columns` of the `inner` columns.
template <class Op, class A, class T, class Out>
void reduce_chunk(const T* data, std::int64_t rows, std::int64_t columns, std::int64_t inner, std::int64_t abreast,
                  Out* out, double divisor) {
  if (inner == 1 && rows < kShortRow) {
    *out = reduce::finish<Out>(sum_short_row<Op, A>(data, rows), divisor);
    return;
  }
  A sums[kMaxLanes];
  const std::int64_t lanes = abreast * columns;
  const std::int64_t steps = rows / abreast;
  const std::int64_t tail = (rows - steps * abreast) * columns;
  if (lanes == kLanes) {
    sum_lanes<Op>(data, steps, abreast * inner, std::int64_t{kLanes}, tail, sums);
  } else {
    sum_lanes<Op>(data, steps, abreast * inner, lanes, tail, sums);
  }
  for (std::int64_t half = abreast / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half * columns; ++l) sums[l] = Op::combine(sums[l], sums[half * columns + l]);
  }
  for (std::int64_t l = 0; l < columns; ++l) out[l] = reduce::finish<Out>(sums[l], divisor);
}

template <class Op, class A, class T, class Out>
void run_stage(const T* in, Out* out, const ReduceStage& stage, double divisor) {
  const std::int64_t abreast = rows_abreast(stage.extent, stage.inner);
  const std::int64_t column_blocks = (stage.inner + kMaxLanes - 1) / kMaxLanes;
  const std::int64_t items = stage.outer * stage.chunks * column_blocks;
  const std::int64_t item_elements = std::min(stage.extent, stage.chunk_rows) * std::min(stage.inner, kMaxLanes);
  parallel_ranges(items, std::max<std::int64_t>(1, kTaskElements / item_elements),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t item = begin; item < end; ++item) {
                      const std::int64_t column = item % column_blocks * kMaxLanes;
                      const std::int64_t chunk = item / column_blocks % stage.chunks;
                      const std::int64_t outer = item / column_blocks / stage.chunks;
                      const std::int64_t row = chunk * stage.chunk_rows;
                      const T* data = in + (outer * stage.extent + row) * stage.inner + column;
                      reduce_chunk<Op, A>(data, std::min(stage.chunk_rows, stage.extent - row),
                                          std::min(kMaxLanes, stage.inner - column), stage.inner, abreast,
                                          out + (outer * stage.chunks + chunk) * stage.inner + column, divisor);
                    }
                  });
}

// All stages: from T through A, in which unfinished results are kept, to Out.
template <class Op, class T, class A, class Out>
void run_stages(const Tensor& in, Tensor& out, const ReduceAttr& attr) {
  ReduceStages stages(attr.from, attr.axes);
  ReduceStage stage;
  Tensor unfinished;
  auto* const result = static_cast<Out*>(out.raw_mutable_data());
  // Axes of one element need no adding up, but the dtype may change.
  if (!stages.next(stage, chunk_rows)) {
    stage = {.outer = 1, .extent = 1, .inner = in.numel()};
    return run_stage<Op, A>(static_cast<const T*>(in.raw_data()), result, stage, attr.divisor);
  }
  for (bool more = true; more;) {
    const ReduceStage now = stage;
    more = stages.next(stage, chunk_rows);
    Tensor next = more ? make_tensor({Shape{now.results()}, dtype_of<A>}, kCPU) : Tensor{};
    A* const partial = more ? next.mutable_data<A>() : nullptr;
    if (!unfinished.defined()) {
      const T* data = static_cast<const T*>(in.raw_data());
      more ? run_stage<Op, A>(data, partial, now, 1.0) : run_stage<Op, A>(data, result, now, attr.divisor);
    } else {
      const A* data = unfinished.data<A>();
      more ? run_stage<Op, A>(data, partial, now, 1.0) : run_stage<Op, A>(data, result, now, attr.divisor);
    }
    unfinished = next;
  }
}

template <class T>
bool beats(T value, T best) {
  return value > best || (value != value && best == best);
}

template <class T>
std::int64_t argmax_row(const T* data, std::int64_t extent) {
  using Value = compute_t<T>;
  Value best = convert<Value>(data[0]);
  std::int64_t at = 0;
  for (std::int64_t k = 1; k < extent; ++k) {
    const auto value = convert<Value>(data[k]);
    if (beats(value, best)) {
      best = value;
      at = k;
    }
  }
  return at;
}

// Of `columns` neighbouring columns: row by row, so that memory is read in order.
template <class T>
void argmax_columns(const T* data, const ArgmaxAttr& attr, std::int64_t columns, std::int64_t* out) {
  using Value = compute_t<T>;
  if (attr.inner == 1) {
    out[0] = argmax_row(data, attr.extent);
    return;
  }
  Value best[kArgmaxColumns];
  for (std::int64_t l = 0; l < columns; ++l) {
    best[l] = convert<Value>(data[l]);
    out[l] = 0;
  }
  for (std::int64_t k = 1; k < attr.extent; ++k) {
    const T* row = data + k * attr.inner;
    for (std::int64_t l = 0; l < columns; ++l) {
      const auto value = convert<Value>(row[l]);
      if (beats(value, best[l])) {
        best[l] = value;
        out[l] = k;
      }
    }
  }
}

}  // namespace

void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) return fill(out, 0.0 / attr.divisor);  // a mean of nothing is NaN
  visit(in[0].dtype(), [&]<class T>() {
    using A = reduce::sum_t<T>;
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    run_stages<reduce::Sum, T, A, Out>(in[0], out, attr);
  });
}

void reduce_max(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  visit(in[0].dtype(), [&]<class T>() { run_stages<reduce::Max, T, compute_t<T>, T>(in[0], out, attr); });
}

void argmax(std::span<const Tensor> in, Tensor& out, const ArgmaxAttr& attr) {
  auto* const result = out.mutable_data<std::int64_t>();
  visit(in[0].dtype(), [&]<class T>() {
    const T* data = in[0].data<T>();
    const std::int64_t column_blocks = (attr.inner + kArgmaxColumns - 1) / kArgmaxColumns;
    const std::int64_t item_elements = attr.extent * std::min(attr.inner, kArgmaxColumns);
    const std::int64_t grain = std::max<std::int64_t>(1, kTaskElements / item_elements);
    parallel_ranges(attr.outer * column_blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t outer = item / column_blocks;
        const std::int64_t column = item % column_blocks * kArgmaxColumns;
        argmax_columns(data + outer * attr.extent * attr.inner + column, attr,
                       std::min(kArgmaxColumns, attr.inner - column), result + outer * attr.inner + column);
      }
    });
  });
}

}  // namespace adjoint::cpu

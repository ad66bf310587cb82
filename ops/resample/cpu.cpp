// Resampling on the CPU: the runs and weights of a block of outputs are tabulated, then every line's part of it is a
// few weighted sums. A table does not grow with the result: it holds one output's weights at least, and a block's at
// most.
#include <adjoint/core/check.h>
#include <adjoint/core/parallel.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/resample/kernels.h>

#include <algorithm>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kTableWeights = 1 << 16;
constexpr std::int64_t kTaskWork = 1 << 15;  // multiply-adds that are worth a task

std::int64_t grain_of(std::int64_t work) {
  return std::max<std::int64_t>(1, kTaskWork / std::max<std::int64_t>(1, work));
}

/// Rows [first, first + rows) of the banded matrix (outputs, inputs): row first + r has weights(r)[t] at column
/// runs[r].start + t.
template <class T>
class Table {
 public:
  explicit Table(const ResampleAttr& attr)
      : taps(band::max_taps(attr)), capacity_(std::clamp<std::int64_t>(kTableWeights / taps, 1, attr.out_extent)) {
    runs.resize(static_cast<std::size_t>(capacity_));
    storage_ = make_tensor({Shape{capacity_ * taps}, dtype_of<T>}, kCPU);
    weights_ = storage_.template mutable_data<T>();
  }

  void tabulate(const ResampleAttr& attr, std::int64_t from) {
    first = from;
    rows = std::min(capacity_, attr.out_extent - from);
    parallel_ranges(rows, grain_of(8 * taps), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        runs[static_cast<std::size_t>(r)] = band::run_of(attr, first + r);
        band::weights_of(attr, first + r, weights_ + r * taps);
      }
    });
  }
  const band::Run& run(std::int64_t r) const { return runs[static_cast<std::size_t>(r)]; }
  const T* weights(std::int64_t r) const { return weights_ + r * taps; }

  std::int64_t first = 0, rows = 0, taps;
  std::vector<band::Run> runs;

 private:
  std::int64_t capacity_;
  Tensor storage_;  // a tensor's, so that it is asked for as tensors are
  T* weights_;
};

/// A tensor seen as (outer, extent, inner) around the axis that is resampled.
struct Lines {
  Lines(const Tensor& tensor, int axis)
      : extent(tensor.size(axis)), inner(axis == -1 ? 1 : tensor.size(-1)), outer(tensor.numel() / (extent * inner)) {}
  std::int64_t extent, inner, outer;
};

/// Cuts [begin, end) of outer x length items into f(place in outer, begin, end), the latter in [0, length).
template <class F>
void for_each_part(std::int64_t begin, std::int64_t end, std::int64_t length, F&& f) {
  while (begin < end) {
    const std::int64_t place = begin / length, at = begin % length, stop = std::min(length, at + end - begin);
    f(place, at, stop);
    begin += stop - at;
  }
}

template <class T>
void add_multiple(T weight, const T* from, T* to, std::int64_t count) {
  for (std::int64_t x = 0; x < count; ++x) to[x] += weight * from[x];
}

/// The table's rows of every line: weighted sums of `in`.
template <class T>
void forward_block(const Table<T>& table, const Lines& lines, std::int64_t in_extent, const T* in, T* out) {
  const std::int64_t inner = lines.inner;
  parallel_ranges(lines.outer * table.rows, grain_of(inner * table.taps), [&](std::int64_t begin, std::int64_t end) {
    for_each_part(begin, end, table.rows, [&](std::int64_t line, std::int64_t low, std::int64_t high) {
      const T* from = in + line * in_extent * inner;
      T* to = out + (line * lines.extent + table.first + low) * inner;
      for (std::int64_t r = low; r < high; ++r, to += inner) {
        const band::Run& run = table.run(r);
        const T* weights = table.weights(r);
        if (inner == 1) {
          T sum = T(0);
          for (std::int64_t i = run.start; i < run.end; ++i) sum += weights[i - run.start] * from[i];
          *to = sum;
        } else {
          std::fill_n(to, inner, T(0));
          for (std::int64_t i = run.start; i < run.end; ++i)
            add_multiple(weights[i - run.start], from + i * inner, to, inner);
        }
      }
    });
  });
}

/// What the table's rows add to every line of `out`: to each input the weighted sum of the outputs that use it. The
/// first block's sums begin at 0.
template <class T>
void adjoint_block(const Table<T>& table, const Lines& lines, std::int64_t out_extent, const T* in, T* out) {
  const std::int64_t inner = lines.inner;
  const std::int64_t start = table.first == 0 ? 0 : table.run(0).start;
  const std::int64_t end_of_run = table.first == 0 ? lines.extent : table.run(table.rows - 1).end;
  const std::int64_t length = end_of_run - start;
  const std::int64_t users = table.rows * table.taps / length + 1;  // of one input, more or less
  parallel_ranges(lines.outer * length, grain_of(inner * users), [&](std::int64_t begin, std::int64_t end) {
    for_each_part(begin, end, length, [&](std::int64_t line, std::int64_t low, std::int64_t high) {
      const T* from = in + (line * out_extent + table.first) * inner;
      T* to = out + (line * lines.extent + start + low) * inner;
      const auto unused = [&](const band::Run& run) { return run.end <= start + low; };
      std::int64_t first =
          std::partition_point(table.runs.begin(), table.runs.begin() + table.rows, unused) - table.runs.begin();
      std::int64_t last = first;
      for (std::int64_t i = start + low; i < start + high; ++i, to += inner) {
        while (first < table.rows && table.run(first).end <= i) ++first;
        while (last < table.rows && table.run(last).start <= i) ++last;
        const auto weight = [&](std::int64_t r) { return table.weights(r)[i - table.run(r).start]; };
        if (inner == 1) {
          T sum = table.first == 0 ? T(0) : *to;
          for (std::int64_t r = first; r < last; ++r) sum += weight(r) * from[r];
          *to = sum;
        } else {
          if (table.first == 0) std::fill_n(to, inner, T(0));
          for (std::int64_t r = first; r < last; ++r) add_multiple(weight(r), from + r * inner, to, inner);
        }
      }
    });
  });
}

template <class T>
void run(bool transposed, const Tensor& in, Tensor& out, const ResampleAttr& attr) {
  Table<T> table(attr);
  const Lines lines(out, attr.axis);
  const T* from = in.data<T>();
  T* to = out.mutable_data<T>();
  for (std::int64_t first = 0; first < attr.out_extent; first += table.rows) {
    table.tabulate(attr, first);
    if (transposed) {
      adjoint_block(table, lines, attr.out_extent, from, to);
    } else {
      forward_block(table, lines, attr.in_extent, from, to);
    }
  }
}

void run(bool transposed, const Tensor& in, Tensor& out, const ResampleAttr& attr) {
  if (in.dtype() == kFloat64) {
    run<double>(transposed, in, out, attr);
  } else {
    run<float>(transposed, in, out, attr);
  }
}

}  // namespace

void resample(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr) { run(false, in[0], out, attr); }
void resample_adjoint(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr) {
  run(true, in[0], out, attr);
}

}  // namespace adjoint::cpu

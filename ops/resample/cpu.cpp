// Resampling on the CPU: a block of the band's runs and weights is tabulated, then its part of every line is a few
// weighted sums. Tables do not grow with the result: they hold at least one output's weights, and at most a block's.
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/resample/kernels.h>

#include <algorithm>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kTableWeights = 1 << 16;
constexpr std::int64_t kTaskWork = 1 << 15;  // multiply-adds that justify a task

std::int64_t grain_of(std::int64_t work) {
  return std::max<std::int64_t>(1, kTaskWork / std::max<std::int64_t>(1, work));
}

/// Rows [first, first + rows) of a banded matrix: row first + r has weights[offset[r] + t] at column start[r] + t, t in
/// [0, taps[r]).
template <class T>
struct Band {
  std::int64_t first = 0, rows = 0, most_taps = 1;
  ScratchVector<std::int64_t> start, taps, offset;
  Tensor storage;  // a tensor, so that its memory is allocated like other tensors'
  T* weights = nullptr;

  void reserve(std::int64_t most_rows, std::int64_t most_weights) {
    for (auto* column : {&start, &taps, &offset}) column->resize(static_cast<std::size_t>(most_rows));
    storage = make_tensor({Shape{most_weights}, dtype_of<T>}, kCPU);
    weights = storage.mutable_data<T>();
  }
  void set_row(std::int64_t r, band::Run run, std::int64_t at) {
    const auto i = static_cast<std::size_t>(r);
    start[i] = run.start;
    taps[i] = run.end - run.start;
    offset[i] = at;
  }
  std::int64_t end(std::int64_t r) const {
    return start[static_cast<std::size_t>(r)] + taps[static_cast<std::size_t>(r)];
  }
};

/// The matrix (outputs, inputs) from output `first` on.
template <class T>
void tabulate_outputs(const ResampleAttr& attr, std::int64_t first, Band<T>& band) {
  band.first = first;
  band.most_taps = band::max_taps(attr);
  band.rows = std::min(static_cast<std::int64_t>(band.start.size()), attr.out_extent - first);
  parallel_ranges(band.rows, grain_of(8 * band.most_taps), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      band.set_row(r, band::run_of(attr, first + r), r * band.most_taps);
      band::weights_of(attr, first + r, band.weights + r * band.most_taps);
    }
  });
}

/// The transpose of `outputs` from input `first` on; its first column is output outputs.first.
template <class T>
void tabulate_inputs(const Band<T>& outputs, std::int64_t first, std::int64_t end, Band<T>& band) {
  band.first = first;
  band.most_taps = 1;
  band.rows = std::min(static_cast<std::int64_t>(band.start.size()), end - first);
  band::Run users;  // rows of `outputs`
  std::int64_t filled = 0;
  for (std::int64_t r = 0; r < band.rows; ++r) {
    const std::int64_t input = first + r;
    while (users.start < outputs.rows && outputs.end(users.start) <= input) ++users.start;
    users.end = std::max(users.end, users.start);
    while (users.end < outputs.rows && outputs.start[static_cast<std::size_t>(users.end)] <= input) ++users.end;
    band.set_row(r, users, filled);
    band.most_taps = std::max(band.most_taps, users.end - users.start);
    for (auto o = static_cast<std::size_t>(users.start); o < static_cast<std::size_t>(users.end); ++o) {
      band.weights[filled++] = outputs.weights[outputs.offset[o] + input - outputs.start[o]];
    }
  }
}

/// sum + weights[0] * from[0] + weights[1] * from[1] + ..., in this order.
template <class T>
T weighted_sum(T sum, const T* weights, const T* from, std::int64_t taps) {
  if (taps == 2) return (sum + weights[0] * from[0]) + weights[1] * from[1];  // nearly always, for linear filters
  for (std::int64_t t = 0; t < taps; ++t) sum += weights[t] * from[t];
  return sum;
}

/// Rows [begin, end) of the band along one line; its elements are next to one another.
template <class T>
void apply_along_row(const Band<T>& band, const T* in, T* out, std::int64_t begin, std::int64_t end, bool add) {
  const std::int64_t *start = band.start.data(), *taps = band.taps.data(), *offset = band.offset.data();
  for (std::int64_t r = begin; r < end; ++r) {
    out[r] = weighted_sum(add ? out[r] : T(0), band.weights + offset[r], in + start[r], taps[r]);
  }
}

/// Row `r` of the band across lines: a weighted sum of whole rows of the plane, some columns at a time, so that the
/// result is written once.
template <class T>
void apply_across_rows(const Band<T>& band, const T* plane, T* out, std::int64_t r, std::int64_t width, bool add) {
  constexpr std::int64_t kColumns = 64;
  const T* const weights = band.weights + band.offset[static_cast<std::size_t>(r)];
  const T* const first = plane + band.start[static_cast<std::size_t>(r)] * width;
  const std::int64_t taps = band.taps[static_cast<std::size_t>(r)];
  for (std::int64_t x = 0; x < width; x += kColumns) {
    const std::int64_t columns = std::min(kColumns, width - x);
    T sums[kColumns] = {};
    if (add) std::copy_n(out + x, columns, sums);
    for (std::int64_t t = 0; t < taps; ++t) {
      const T* const from = first + t * width + x;
      for (std::int64_t c = 0; c < columns; ++c) sums[c] += weights[t] * from[c];
    }
    std::copy_n(sums, columns, out + x);
  }
}

/// A tensor seen as planes of (extent, width) along the axis; lines along the last axis are planes of width 1.
template <class T>
struct Planes {
  T* data;
  std::int64_t extent, width;
};

/// The band's rows of every plane of `out`; its first column is position `column` of `in`. With `add`, they are added
/// to `out`.
template <class T>
void apply_band(const Band<T>& band, std::int64_t planes, Planes<const T> in, std::int64_t column, Planes<T> out,
                bool add) {
  const std::int64_t width = out.width;
  parallel_ranges(planes * band.rows, grain_of(width * band.most_taps), [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t plane = begin / band.rows, first = begin % band.rows;
      const std::int64_t last = std::min(band.rows, first + end - begin);
      const T* from = in.data + (plane * in.extent + column) * width;
      T* to = out.data + (plane * out.extent + band.first) * width;
      if (width == 1) {
        apply_along_row(band, from, to, first, last, add);
      } else {
        for (std::int64_t r = first; r < last; ++r) apply_across_rows(band, from, to + r * width, r, width, add);
      }
      begin += last - first;
    }
  });
}

template <class T>
void run(bool transposed, const Tensor& in, Tensor& out, const ResampleAttr& attr) {
  const std::int64_t width = band::elements_behind(in.shape(), attr.axis);
  const std::int64_t planes = out.numel() / (out.size(attr.axis) * width);
  const Planes<const T> from{in.data<T>(), in.size(attr.axis), width};
  const Planes<T> to{out.mutable_data<T>(), out.size(attr.axis), width};
  const std::int64_t taps = band::max_taps(attr);
  const std::int64_t most_rows = std::clamp<std::int64_t>(kTableWeights / taps, 1, attr.out_extent);
  Band<T> outputs, inputs;
  outputs.reserve(most_rows, most_rows * taps);
  if (transposed) inputs.reserve(std::min(kTableWeights, attr.in_extent), most_rows * taps);
  for (std::int64_t o = 0; o < attr.out_extent; o += outputs.rows) {
    tabulate_outputs(attr, o, outputs);
    if (!transposed) {
      apply_band(outputs, planes, from, 0, to, false);
      continue;
    }
    // The first block of outputs starts every sum, including sums without terms; later blocks add to the inputs that
    // they use.
    const std::int64_t begin = o == 0 ? 0 : outputs.start[0];
    const std::int64_t end = o == 0 ? attr.in_extent : outputs.end(outputs.rows - 1);
    for (std::int64_t i = begin; i < end; i += inputs.rows) {
      tabulate_inputs(outputs, i, end, inputs);
      apply_band(inputs, planes, from, o, to, o > 0);
    }
  }
}

}  // namespace

void resample_axis(const Tensor& in, Tensor& out, const ResampleAttr& attr, bool transposed) {
  if (in.dtype() == kFloat64) {
    run<double>(transposed, in, out, attr);
  } else {
    run<float>(transposed, in, out, attr);
  }
}

}  // namespace adjoint::cpu

// Resampling on the CPU: the band's runs and weights are tabulated once, then every line is a few weighted sums.
#include <adjoint/core/check.h>
#include <adjoint/core/parallel.h>
#include <adjoint/ops/resample/kernels.h>

#include <algorithm>
#include <vector>

namespace adjoint::cpu {
namespace {

/// A banded matrix (rows, columns): row r has weights[r * stride + t] at column start[r] + t, t in [0, taps[r]).
template <class T>
struct Band {
  std::int64_t stride = 0;
  std::vector<std::int64_t> start, taps;
  std::vector<T> weights;

  void resize(std::int64_t rows, std::int64_t width) {
    stride = width;
    start.resize(static_cast<std::size_t>(rows));
    taps.resize(static_cast<std::size_t>(rows));
    weights.resize(static_cast<std::size_t>(rows * width));
  }
  T* row(std::int64_t r) { return weights.data() + r * stride; }
  const T* row(std::int64_t r) const { return weights.data() + r * stride; }
  void set_run(std::int64_t r, band::Run run) {
    start[static_cast<std::size_t>(r)] = run.start;
    taps[static_cast<std::size_t>(r)] = run.end - run.start;
  }
};

template <class T>
Band<T> forward_band(const ResampleAttr& attr) {
  Band<T> result;
  result.resize(attr.out_extent, band::max_taps(attr));
  for (std::int64_t o = 0; o < attr.out_extent; ++o) {
    result.set_run(o, band::run_of(attr, o));
    band::weights_of(attr, o, result.row(o));
  }
  return result;
}

template <class T>
Band<T> transposed_band(const ResampleAttr& attr) {
  const Band<T> forward = forward_band<T>(attr);
  std::int64_t width = 0;
  for (std::int64_t i = 0; i < attr.in_extent; ++i) {
    const band::Run users = band::users_of(attr, i);
    width = std::max(width, users.end - users.start);
  }
  Band<T> result;
  result.resize(attr.in_extent, width);
  for (std::int64_t i = 0; i < attr.in_extent; ++i) {
    const band::Run users = band::users_of(attr, i);
    result.set_run(i, users);
    for (std::int64_t o = users.start; o < users.end; ++o) {
      result.row(i)[o - users.start] = forward.row(o)[i - forward.start[static_cast<std::size_t>(o)]];
    }
  }
  return result;
}

/// One line along the axis; its elements are next to one another.
template <class T>
void apply_along_row(const Band<T>& band, const T* in, T* out, std::int64_t extent) {
  for (std::int64_t r = 0; r < extent; ++r) {
    const T* weights = band.row(r);
    const T* from = in + band.start[static_cast<std::size_t>(r)];
    const std::int64_t taps = band.taps[static_cast<std::size_t>(r)];
    T sum = T(0);
    for (std::int64_t t = 0; t < taps; ++t) sum += weights[t] * from[t];
    out[r] = sum;
  }
}

/// Row `r` of a result whose lines run across: a weighted sum of whole rows.
template <class T>
void apply_across_rows(const Band<T>& band, const T* plane, T* out, std::int64_t r, std::int64_t width) {
  const T* weights = band.row(r);
  const T* from = plane + band.start[static_cast<std::size_t>(r)] * width;
  const std::int64_t taps = band.taps[static_cast<std::size_t>(r)];
  std::fill_n(out, width, T(0));
  for (std::int64_t t = 0; t < taps; ++t, from += width) {
    const T weight = weights[t];
    for (std::int64_t x = 0; x < width; ++x) out[x] += weight * from[x];
  }
}

template <class T>
void apply_band(const Band<T>& band, const Tensor& in, Tensor& out, int axis) {
  constexpr std::int64_t kTaskWork = 1 << 15;  // multiply-adds that are worth a task
  const T* from = in.data<T>();
  T* to = out.mutable_data<T>();
  const std::int64_t in_extent = in.size(axis), out_extent = out.size(axis);
  const std::int64_t width = axis == -1 ? 1 : in.size(-1);
  const std::int64_t line = (axis == -1 ? out_extent : width) * std::max<std::int64_t>(band.stride, 1);
  const std::int64_t grain = std::max<std::int64_t>(1, kTaskWork / line);
  const std::int64_t lines = axis == -1 ? out.numel() / out_extent : out.numel() / width;
  parallel_ranges(lines, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t l = begin; l < end; ++l) {
      if (axis == -1) {
        apply_along_row(band, from + l * in_extent, to + l * out_extent, out_extent);
      } else {
        apply_across_rows(band, from + l / out_extent * in_extent * width, to + l * width, l % out_extent, width);
      }
    }
  });
}

}  // namespace

void resample(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr) {
  if (in[0].dtype() == kFloat64) {
    apply_band(forward_band<double>(attr), in[0], out, attr.axis);
  } else {
    apply_band(forward_band<float>(attr), in[0], out, attr.axis);
  }
}

void resample_adjoint(std::span<const Tensor> in, Tensor& out, const ResampleAttr& attr) {
  if (in[0].dtype() == kFloat64) {
    apply_band(transposed_band<double>(attr), in[0], out, attr.axis);
  } else {
    apply_band(transposed_band<float>(attr), in[0], out, attr.axis);
  }
}

}  // namespace adjoint::cpu

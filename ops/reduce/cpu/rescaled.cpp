#include <adjoint/ops/reduce/cpu/rescaled.h>

#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/reduce/combine.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace adjoint::cpu {
namespace {

// Each result's elements as a row (results, elements of one).
Tensor rows_of(const Tensor& in, const ReduceAttr& attr) {
  Shape shape;
  Strides strides;
  for (const bool reduced : {false, true}) {
    for (std::size_t i = 0; i < in.shape().size(); ++i) {
      if (((attr.axes >> i & 1U) != 0) != reduced) continue;
      shape.push_back(in.shape()[i]);
      strides.push_back(in.strides()[i]);
    }
  }
  const Tensor ordered = in.view_as(shape, strides, in.storage_offset());
  return ordered.is_contiguous() ? ordered : contiguous_copy(ordered);
}

// finish(row, n, exponent): the p-norm of a row's elements, or of values derived from them, times 2^-exponent. This
// makes the dominant element, the largest or for a negative p the least, about 1.
template <class T, class Finish>
void rescale(const Tensor& in, Tensor& out, const ReduceAttr& attr, double p, const Finish& finish) {
  using A = compute_t<T>;
  using Limits = std::numeric_limits<A>;
  // Sums of powers down to this bound have all their digits.
  const double least = static_cast<double>(Limits::min() / Limits::epsilon() / Limits::epsilon());
  const double most = static_cast<double>(Limits::max());
  const double low = std::pow(p > 0.0 ? least : most, 1.0 / p), high = p > 0.0 ? most : std::pow(least, 1.0 / p);
  const std::int64_t n = in.numel() / out.numel();
  T* const results = out.mutable_data<T>();
  Tensor rows;
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const auto result = static_cast<double>(convert<A>(results[i]));
    if ((result >= low && result <= high) || std::isnan(result)) continue;
    if (!rows.defined()) rows = rows_of(in, attr);
    const T* const row = rows.data<T>() + i * n;
    double size = std::abs(static_cast<double>(row[0]));
    for (std::int64_t k = 1; k < n; ++k) {
      const double other = std::abs(static_cast<double>(row[k]));
      size = p > 0.0 ? std::max(size, other) : std::min(size, other);
    }
    if (size == 0.0 || !std::isfinite(size)) continue;
    const int exponent = std::ilogb(size);
    results[i] = convert<T>(std::ldexp(finish(row, n, exponent), exponent));
  }
}

}  // namespace

void rescale_deviations(const Tensor& in, Tensor& out, const ReduceAttr& attr) {
  visit_floating(in.dtype(), [&]<class T>() {
    rescale<T>(in, out, attr, 2.0, [&](const T* row, std::int64_t n, int exponent) {
      const auto scaled = [&](std::int64_t i) { return std::ldexp(static_cast<double>(row[i]), -exponent); };
      double mean = 0.0, squares = 0.0;
      for (std::int64_t i = 0; i < n; ++i) mean += scaled(i);
      mean /= static_cast<double>(n);
      for (std::int64_t i = 0; i < n; ++i) squares += (scaled(i) - mean) * (scaled(i) - mean);
      return std::sqrt(squares / attr.divisor);
    });
  });
}

void rescale_norms(const Tensor& in, Tensor& out, const PowerAttr& attr) {
  if (attr.p == 0.0 || attr.p == 1.0) return;
  visit_floating(in.dtype(), [&]<class T>() {
    rescale<T>(in, out, attr.reduce, attr.p, [&](const T* row, std::int64_t n, int exponent) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < n; ++i) {
        sum += std::pow(std::abs(std::ldexp(static_cast<double>(row[i]), -exponent)), attr.p);
      }
      return std::pow(sum, 1.0 / attr.p);
    });
  });
}

}  // namespace adjoint::cpu

// quantile: between two neighbours of the sorted elements.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/sort/sort.h>
#include <adjoint/ops/view/view.h>

#include <cmath>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

constexpr const char* kQuantile = "quantile";

// The fraction of the way from element floor(rank) to the next one.
double share_of_step(std::string_view interpolation, double rank) {
  const double below = std::floor(rank), share = rank - below;
  if (interpolation == "lower") return 0.0;
  if (interpolation == "higher") return share > 0.0 ? 1.0 : 0.0;
  if (interpolation == "midpoint") return share > 0.0 ? 0.5 : 0.0;
  if (interpolation == "nearest") return std::nearbyint(rank) - below;  // ties to even
  ADJOINT_CHECK(
      interpolation == "linear",
      "quantile: interpolation must be \"linear\", \"lower\", \"higher\", \"nearest\" or \"midpoint\"; got \"{}\"",
      interpolation);
  return share;
}

// (Q, ...) for each of qs.
Tensor quantiles(const Tensor& x, const std::vector<double>& qs, const QuantileOptions& options) {
  check_defined(kQuantile, "x", x);
  ADJOINT_CHECK(is_floating_point(x.dtype()), "quantile: x must be floating point; got {}; convert with to()",
                x.dtype());
  const Tensor from = !options.axis ? x.reshape({x.numel()}) : x.dim() == 0 ? x.reshape({1}) : x;
  const std::size_t at = resolve_axis(kQuantile, options.axis.value_or(0), from.shape().size());
  const auto axis = static_cast<std::int64_t>(at);
  const std::int64_t extent = from.size(axis);
  ADJOINT_CHECK(extent > 0, "quantile: there must be an element; got x {}", x.shape());
  std::vector<std::int64_t> below, above;
  std::vector<double> shares;
  for (const double q : qs) {
    ADJOINT_CHECK(q >= 0.0 && q <= 1.0, "quantile: q must lie in [0, 1]; got {}", q);
    const double rank = q * static_cast<double>(extent - 1);
    below.push_back(static_cast<std::int64_t>(rank));
    above.push_back(std::min(below.back() + 1, extent - 1));
    shares.push_back(share_of_step(options.interpolation, rank));
  }
  const Tensor sorted = widened(sort(from, axis).first);
  const auto count = static_cast<std::int64_t>(qs.size());
  const auto elements = [&](const std::vector<std::int64_t>& places) {
    return index_select(sorted, axis, Tensor::from_vector(places, {count}, {.dtype = kInt64}).to(x.device()));
  };
  Shape along = Dims::filled(from.shape().size(), 1);
  along[at] = count;
  const Tensor share = Tensor::from_vector(shares, along, {.dtype = sorted.dtype()}).to(x.device());
  // NaNs come last.
  const Tensor last = sorted.narrow(axis, extent - 1, 1);
  const Tensor between = lerp(elements(below), elements(above), share);
  const Tensor all = movedim(where(isnan(last), last, between), axis, 0).to(x.dtype());
  Shape shape{count};
  const Shape& given = x.shape();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool reduced = !options.axis || i == at;
    if (!reduced) shape.push_back(given[i]);
    if (reduced && options.keepdim) shape.push_back(1);
  }
  return all.reshape(shape);
}

}  // namespace

Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  const OpScope scope(kQuantile);
  return quantiles(x, {q}, options).select(0, 0);
}

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  const OpScope scope(kQuantile);
  check_defined(kQuantile, "q", q);
  ADJOINT_CHECK(is_floating_point(q.dtype()) && q.dim() <= 1,
                "quantile: q must be floating point and have one axis at most; got {} {}", q.dtype(), q.shape());
  const Tensor all = quantiles(x, q.to_vector<double>(), options);
  return q.dim() == 0 ? all.select(0, 0) : all;
}

}  // namespace adjoint

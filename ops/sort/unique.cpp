// searchsorted and unique.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/sort/sort.h>
#include <adjoint/ops/view/view.h>

#include <array>
#include <optional>

namespace adjoint {
namespace {

// True if an element comes before a value in a sorted row; NaN is above all numbers.
Tensor comes_before(const Tensor& element, const Tensor& value, bool right) {
  const Tensor before = right ? element <= value : element < value;
  if (!is_floating_point(element.dtype())) return before;
  const Tensor below_nan = right ? isnan(value) : logical_and(isnan(value), logical_not(isnan(element)));
  return logical_or(before, below_nan);
}

// (extent), bool: true if a slice of `sorted` (extent, size) differs from the one before it.
Tensor begins_of_runs(const Tensor& sorted) {
  const std::int64_t extent = sorted.size(0);
  const Tensor differs = any(sorted.narrow(0, 1, extent - 1) != sorted.narrow(0, 0, extent - 1), 1);
  return cat({Tensor::ones({1}, differs.options()), differs});
}

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  constexpr const char* kOp = "searchsorted";
  const OpScope scope(kOp);
  if (const detail::AutocastCall cast(MixedPrecision::kWidest, {sorted, values}); cast) {
    return searchsorted(cast[0], cast[1], right);
  }
  check_defined(kOp, "sorted", sorted);
  check_defined(kOp, "values", values);
  const std::array<Tensor, 2> both{sorted.detach(), values.detach()};
  const std::optional<DType> dtype = promote(both);
  ADJOINT_CHECK(dtype.has_value(), "{}: sorted and values must share a dtype; got {} and {}; convert one with to()",
                kOp, sorted.dtype(), values.dtype());
  const bool one_row = sorted.dim() == 1;
  ADJOINT_CHECK(one_row || (sorted.dim() > 1 && sorted.dim() == values.dim() &&
                            Shape(sorted.shape().begin(), sorted.shape().end() - 1) ==
                                Shape(values.shape().begin(), values.shape().end() - 1)),
                "{}: sorted must have one axis, or values' axes but for the last; got sorted {}, values {}", kOp,
                sorted.shape(), values.shape());
  const Tensor rows = both[0].to(*dtype);
  const Tensor wanted = one_row ? both[1].to(*dtype).reshape({values.numel()}) : both[1].to(*dtype);
  const std::int64_t extent = sorted.size(-1);
  Tensor found = Tensor::zeros(wanted.shape(), {.dtype = kInt64, .device = values.device()});
  if (extent == 0 || values.numel() == 0) return found.reshape(values.shape());
  std::int64_t step = 1;
  while (step <= extent / 2) step *= 2;
  // `found` elements come before the value; it grows by the largest steps first.
  for (; step > 0; step /= 2) {
    const Tensor next = found + step;
    const Tensor element = gather(rows, -1, clamp_max(next, extent) - 1);
    found = where(logical_and(next <= extent, comes_before(element, wanted, right)), next, found);
  }
  return found.reshape(values.shape());
}

std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x, std::optional<std::int64_t> axis) {
  constexpr const char* kOp = "unique";
  const OpScope scope(kOp);
  check_defined(kOp, "x", x);
  const PauseTape unrecorded;
  const std::int64_t along =
      axis ? static_cast<std::int64_t>(resolve_axis(kOp, *axis, x.shape().size())) : std::int64_t{0};
  const Tensor slices = axis ? movedim(x.detach(), along, 0) : x.detach().reshape({x.numel()});
  const std::int64_t extent = slices.size(0);
  const TensorOptions places{.dtype = kInt64, .device = x.device()};
  const Shape inverse_shape = axis ? Shape{extent} : x.shape();
  if (extent == 0) {
    return {axis ? x.detach().clone() : slices, Tensor::zeros(inverse_shape, places), Tensor::zeros({0}, places)};
  }
  const Tensor rows = slices.reshape({extent, slices.numel() / extent}).contiguous();
  // By the last element first: each sort leaves equal ones in the order of the elements behind.
  Tensor order = Tensor::arange(extent, places);
  for (std::int64_t column = rows.size(1); column-- > 0;) {
    const Tensor now = argsort(index_select(rows.select(1, column), 0, order));
    order = index_select(order, 0, now);
  }
  const Tensor begins = begins_of_runs(index_select(rows, 0, order));
  const Tensor inverse = scatter(Tensor::zeros({extent}, places), 0, order, cumsum(begins, 0) - 1);
  const Tensor firsts = nonzero(begins).select(1, 0);
  const Tensor ends = cat({firsts.narrow(0, 1, firsts.size(0) - 1), Tensor::full({1}, extent, places)});
  const Tensor values = index_select(slices, 0, index_select(order, 0, firsts));
  return {axis ? movedim(values, 0, along).contiguous() : values, inverse.reshape(inverse_shape), ends - firsts};
}

}  // namespace adjoint

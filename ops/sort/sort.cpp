// argsort is the operator; sort, topk, kthvalue and median gather the elements at its indices.
#include <adjoint/ops/sort/sort.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/sort/kernels.h>

namespace adjoint {
namespace {

constinit const OpDef<SortAttr> argsort_op{.name = "argsort",
                                           .infer =
                                               [](Operands in, const SortAttr&) {
                                                 return TensorSpec{in[0].shape(), kInt64};
                                               },
                                           .cpu = cpu::argsort,
                                           .cuda = ADJOINT_IF_CUDA(cuda::argsort)};

// x with an axis to sort along.
struct Sortable {
  Tensor x;
  std::int64_t axis;

  Sortable(const char* op, const Tensor& given, std::int64_t along) {
    check_defined(op, "x", given);
    x = given.dim() == 0 ? given.reshape({1}) : given;
    axis = static_cast<std::int64_t>(resolve_axis(op, along, x.shape().size()));
  }
  std::int64_t extent() const { return x.size(axis); }
  Tensor places(bool descending) const {
    const Tensor last = x.detach().transpose(axis, -1);
    if (x.numel() == 0) return Tensor::zeros(x.shape(), {.dtype = kInt64, .device = x.device()});
    const Tensor rows = last.reshape({last.numel() / extent(), extent()});
    return apply(argsort_op, {rows}, {extent(), descending}).reshape(last.shape()).transpose(axis, -1);
  }
};

// Without axes where the operand has none.
Tensor like_operand(const Tensor& result, const Tensor& operand) {
  return operand.dim() == 0 ? result.reshape({}) : result;
}

std::pair<Tensor, Tensor> taken(const Sortable& from, const Tensor& places, bool keepdim, const Tensor& operand) {
  Tensor values = gather(from.x, from.axis, places), index = places;
  if (!keepdim || operand.dim() == 0) {
    values = values.squeeze(from.axis);
    index = index.squeeze(from.axis);
  }
  return {values, index.contiguous()};
}

}  // namespace

Tensor argsort(const Tensor& x, std::int64_t axis, bool descending) {
  const OpScope scope("argsort");
  return like_operand(Sortable("argsort", x, axis).places(descending).contiguous(), x);
}

std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t axis, bool descending) {
  const OpScope scope("sort");
  const Sortable from("sort", x, axis);
  const Tensor places = from.places(descending).contiguous();
  return {like_operand(gather(from.x, from.axis, places), x), like_operand(places, x)};
}

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest) {
  const OpScope scope("topk");
  const Sortable from("topk", x, axis);
  ADJOINT_CHECK(k >= 0 && k <= from.extent(), "topk: k must lie in [0, {}]; got {} along axis {} of x {}",
                from.extent(), k, axis, x.shape());
  const Tensor places = from.places(largest).narrow(from.axis, 0, k).contiguous();
  const bool scalar = x.dim() == 0 && k == 1;
  const Tensor values = gather(from.x, from.axis, places);
  return {scalar ? values.reshape({}) : values, scalar ? places.reshape({}) : places};
}

std::pair<Tensor, Tensor> kthvalue(const Tensor& x, std::int64_t k, std::int64_t axis, bool keepdim) {
  const OpScope scope("kthvalue");
  const Sortable from("kthvalue", x, axis);
  ADJOINT_CHECK(k >= 1 && k <= from.extent(), "kthvalue: k must lie in [1, {}]; got {} along axis {} of x {}",
                from.extent(), k, axis, x.shape());
  return taken(from, from.places(false).narrow(from.axis, k - 1, 1), keepdim, x);
}

std::pair<Tensor, Tensor> median(const Tensor& x, std::int64_t axis, bool keepdim) {
  const OpScope scope("median");
  const Sortable from("median", x, axis);
  ADJOINT_CHECK(from.extent() > 0, "median: the axis must have an element; got axis {} of x {}", axis, x.shape());
  const Tensor places = from.places(false);
  const std::int64_t middle = (from.extent() - 1) / 2;
  if (!is_floating_point(x.dtype())) return taken(from, places.narrow(from.axis, middle, 1), keepdim, x);
  // NaNs stand behind all numbers: the first of them behind as many as there are.
  const Tensor numbers = logical_not(isnan(from.x.detach())).sum(from.axis, true);
  const Tensor wanted = where(numbers == from.extent(), middle, numbers);
  return taken(from, gather(places, from.axis, wanted), keepdim, x);
}

Tensor median(const Tensor& x) {
  const OpScope scope("median");
  check_defined("median", "x", x);
  ADJOINT_CHECK(x.numel() > 0, "median: there must be an element; got x {}", x.shape());
  const Tensor all = x.reshape({x.numel()}), value = median(all.detach(), 0).first;
  // Those that equal the median, or are NaN as it is, share its gradient, as they do in amax, or in mean for NaN.
  const bool is_nan = is_floating_point(x.dtype()) && isnan(value).item<bool>();
  return is_nan ? masked_select(all, isnan(all.detach())).mean() : amax(masked_select(all, all.detach() == value));
}

}  // namespace adjoint

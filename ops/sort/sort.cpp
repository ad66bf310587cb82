// The operator finds the places of an order's first elements; sort, topk, kthvalue and median gather the elements
// there.
#include <adjoint/ops/sort/sort.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
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

struct FirstAttr {
  std::int64_t axis;
  std::int64_t count;
  bool descending;
};

// For either device.
void first_kernel(Operands in, Tensor& out, const FirstAttr& attr) {
  const Tensor last = in[0].transpose(attr.axis, -1);
  const std::int64_t extent = last.size(-1);
  const Tensor places = apply(argsort_op, {last.reshape({last.numel() / extent, extent})}, {extent, attr.descending});
  copy_into(places.reshape(last.shape()).transpose(attr.axis, -1).narrow(attr.axis, 0, attr.count), out);
}

OnnxValue first_onnx(OnnxCall& call, const FirstAttr& attr) {
  // ONNX Runtime's TopK of no elements crashes.
  if (call.in[0].numel() == 0) return call.constant(Tensor::zeros(call.out[0].shape(), {.dtype = kInt64}));
  const DType dtype = call.in[0].dtype();
  const OnnxValue x = dtype == kBool || dtype == kUInt8 ? call.cast(call.operand(0), kInt32) : call.operand(0);
  return call.add_node("TopK", std::vector{x, call.integers({attr.count})},
                       {{"axis", attr.axis}, {"largest", attr.descending}}, 2)[1];
}

// The places of the first `count` elements in the order along an axis: int64.
constinit const OpDef<FirstAttr> first_op{.name = "argsort",
                                          .infer =
                                              [](Operands in, const FirstAttr& attr) {
                                                Shape shape = in[0].shape();
                                                shape[static_cast<std::size_t>(attr.axis)] = attr.count;
                                                return TensorSpec{shape, kInt64};
                                              },
                                          .cpu = first_kernel,
                                          .cuda = ADJOINT_IF_CUDA(first_kernel),
                                          .strided = true,
                                          .onnx = first_onnx};

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
  Tensor places(bool descending) const { return places(descending, extent()); }
  Tensor places(bool descending, std::int64_t count) const {
    return apply(first_op, {x.detach()}, {axis, count, descending});
  }
};

// Without axes if the operand has no axes.
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
  return like_operand(Sortable("argsort", x, axis).places(descending), x);
}

std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t axis, bool descending) {
  const OpScope scope("sort");
  const Sortable from("sort", x, axis);
  const Tensor places = from.places(descending);
  return {like_operand(gather(from.x, from.axis, places), x), like_operand(places, x)};
}

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest) {
  const OpScope scope("topk");
  const Sortable from("topk", x, axis);
  ADJOINT_CHECK(k >= 0 && k <= from.extent(), "topk: k must lie in [0, {}]; got {} along axis {} of x {}",
                from.extent(), k, axis, x.shape());
  const Tensor places = from.places(largest, k);
  const bool scalar = x.dim() == 0 && k == 1;
  const Tensor values = gather(from.x, from.axis, places);
  return {scalar ? values.reshape({}) : values, scalar ? places.reshape({}) : places};
}

std::pair<Tensor, Tensor> kthvalue(const Tensor& x, std::int64_t k, std::int64_t axis, bool keepdim) {
  const OpScope scope("kthvalue");
  const Sortable from("kthvalue", x, axis);
  ADJOINT_CHECK(k >= 1 && k <= from.extent(), "kthvalue: k must lie in [1, {}]; got {} along axis {} of x {}",
                from.extent(), k, axis, x.shape());
  return taken(from, from.places(false, k).narrow(from.axis, k - 1, 1), keepdim, x);
}

std::pair<Tensor, Tensor> median(const Tensor& x, std::int64_t axis, bool keepdim) {
  const OpScope scope("median");
  const Sortable from("median", x, axis);
  ADJOINT_CHECK(from.extent() > 0, "median: the axis must have an element; got axis {} of x {}", axis, x.shape());
  const Tensor places = from.places(false);
  const std::int64_t middle = (from.extent() - 1) / 2;
  if (!is_floating_point(x.dtype())) return taken(from, places.narrow(from.axis, middle, 1), keepdim, x);
  // NaNs follow all numbers, so the count of numbers is the first NaN's place.
  const Tensor numbers = logical_not(isnan(from.x.detach())).sum(from.axis, true);
  const Tensor wanted = where(numbers == from.extent(), middle, numbers);
  return taken(from, gather(places, from.axis, wanted), keepdim, x);
}

Tensor median(const Tensor& x) {
  const OpScope scope("median");
  check_defined("median", "x", x);
  ADJOINT_CHECK(x.numel() > 0, "median: there must be an element; got x {}", x.shape());
  const Tensor all = x.reshape({x.numel()}), value = median(all.detach(), 0).first;
  if (Tape::current() == nullptr) return value;
  // Those that equal the median, or are NaN as it is, share its gradient, as they do in amax, or in mean for NaN.
  const bool is_nan = is_floating_point(x.dtype()) && isnan(value).item<bool>();
  return is_nan ? masked_select(all, isnan(all.detach())).mean() : amax(masked_select(all, all.detach() == value));
}

}  // namespace adjoint

// cumprod, logcumsumexp, cummax and cummin: log2(extent) passes of other operators.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/scan/scan.h>

#include <limits>

namespace adjoint {
namespace {

// a - b, and 0 of equal infinities.
Tensor difference(const Tensor& a, const Tensor& b) {
  return where(logical_and(a == b, isinf(a)), Tensor::zeros({}, a.options()), a - b);
}

// After the pass of `distance`, an element represents itself and the 2 distance - 1 before it: combine(earlier, later).
template <class Combine>
Tensor scanned(const Tensor& x, std::int64_t axis, const Combine& combine) {
  const std::int64_t extent = x.size(axis);
  Tensor sums = x;
  for (std::int64_t distance = 1; distance < extent; distance *= 2) {
    const Tensor earlier = sums.narrow(axis, 0, extent - distance);
    const Tensor later = sums.narrow(axis, distance, extent - distance);
    sums = cat({sums.narrow(axis, 0, distance), combine(earlier, later)}, axis);
  }
  return sums;
}

struct LogCumsumexpAttr {
  std::int64_t axis;
};

// For either device.
void logcumsumexp_kernel(Operands in, Tensor& out, const LogCumsumexpAttr& attr) {
  const Tensor sums = scanned(widened(in[0]), attr.axis, [](const Tensor& a, const Tensor& b) {
    return maximum(a, b) + log1p(exp(-abs(difference(a, b))));
  });
  copy_into(sums, out);
}

// d(loss)/dx[j] is the sum over i >= j of g[i] exp(x[j] - out[i]). Its terms are added as g[i] exp(out[j] - out[i]), of
// which none overflows: sums grow along the axis.
Tensor logcumsumexp_gradient(const Ctx<LogCumsumexpAttr>& c) {
  const std::int64_t axis = c.attr.axis;
  const Tensor x = widened(c.in[0]), out = widened(c.out);
  const std::int64_t extent = x.size(axis);
  Tensor sums = widened(c.grad);
  for (std::int64_t distance = 1; distance < extent; distance *= 2) {
    const std::int64_t rest = extent - distance;
    const Tensor shares = exp(difference(out.narrow(axis, 0, rest), out.narrow(axis, distance, rest)));
    const Tensor added = sums.narrow(axis, 0, rest) + shares * sums.narrow(axis, distance, rest);
    sums = cat({added, sums.narrow(axis, rest, distance)}, axis);
  }
  return (sums * exp(difference(x, out))).to(c.grad.dtype());
}

// A row of (..., extent, extent, ...) has the elements up to one of them; -infinity replaces the later ones.
OnnxValue logcumsumexp_onnx(OnnxCall& call, const LogCumsumexpAttr& attr) {
  const Tensor& x = call.in[0];
  const auto axis = static_cast<std::size_t>(attr.axis);
  const std::int64_t extent = x.shape()[axis];
  Shape up_to = Dims::filled(x.shape().size() + 1 - axis, 1);
  up_to[0] = up_to[1] = extent;
  const Tensor places = Tensor::arange(extent, {.dtype = kInt64});
  const OnnxValue earlier = call.constant((places <= places.unsqueeze(1)).reshape(up_to));
  const OnnxValue nothing = call.number(-std::numeric_limits<double>::infinity(), x.dtype());
  const OnnxValue all = call.add("Unsqueeze", {call.operand(0), call.integers({attr.axis})});
  return call.add("ReduceLogSumExp", {call.add("Where", {earlier, all, nothing})},
                  {{"axes", std::vector<std::int64_t>{attr.axis + 1}}, {"keepdims", false}});
}

constinit const OpDef<LogCumsumexpAttr> logcumsumexp_op{.name = "logcumsumexp",
                                                        .infer =
                                                            [](Operands in, const LogCumsumexpAttr&) {
                                                              check_floating("logcumsumexp", in[0].dtype());
                                                              return TensorSpec{in[0].shape(), in[0].dtype()};
                                                            },
                                                        .cpu = logcumsumexp_kernel,
                                                        .cuda = ADJOINT_IF_CUDA(logcumsumexp_kernel),
                                                        .onnx = logcumsumexp_onnx,
                                                        .vjp = {{{kSaveIn0 | kSaveOut, logcumsumexp_gradient}}}};

// True if `later` replaces `earlier`.
Tensor takes_over(const Tensor& earlier, const Tensor& later, bool least) {
  const Tensor better = least ? later <= earlier : later >= earlier;
  if (!is_floating_point(later.dtype())) return better;
  return logical_or(isnan(later), logical_and(better, logical_not(isnan(earlier))));
}

std::pair<Tensor, Tensor> extreme_so_far(const char* op, const Tensor& x, std::int64_t along, bool least) {
  const OpScope scope(op);
  check_defined(op, "x", x);
  const auto axis = static_cast<std::int64_t>(resolve_axis(op, along, x.shape().size()));
  const std::int64_t extent = x.size(axis);
  Shape one = Dims::filled(x.shape().size(), 1);
  one[static_cast<std::size_t>(axis)] = extent;
  Tensor values = x.detach();
  Tensor places = Tensor::arange(extent, {.dtype = kInt64, .device = x.device()}).reshape(one).expand(x.shape());
  for (std::int64_t distance = 1; distance < extent; distance *= 2) {
    const auto combined = [&](const Tensor& t, const Tensor& later) {
      const std::int64_t rest = extent - distance;
      const Tensor chosen = where(later, t.narrow(axis, distance, rest), t.narrow(axis, 0, rest));
      return cat({t.narrow(axis, 0, distance), chosen}, axis);
    };
    const Tensor later =
        takes_over(values.narrow(axis, 0, extent - distance), values.narrow(axis, distance, extent - distance), least);
    places = combined(places, later);
    values = combined(values, later);
  }
  places = places.contiguous();
  return {gather(x, axis, places), places};
}

}  // namespace

Tensor cumprod(const Tensor& x, std::int64_t axis) {
  const OpScope scope("cumprod");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) return cumprod(full[0], axis);
  check_defined("cumprod", "x", x);
  const auto at = static_cast<std::int64_t>(resolve_axis("cumprod", axis, x.shape().size()));
  const bool floating = is_floating_point(x.dtype());
  const Tensor wide = floating ? widened(x) : x.to(kInt64);
  const Tensor products = scanned(wide, at, [](const Tensor& a, const Tensor& b) { return a * b; });
  const Tensor result = products.to(floating ? x.dtype() : kInt64);
  return result.impl() == x.impl() ? x.clone() : result;
}

Tensor logcumsumexp(const Tensor& x, std::int64_t axis) {
  const OpScope scope("logcumsumexp");
  check_defined("logcumsumexp", "x", x);
  return apply(logcumsumexp_op, {x}, {static_cast<std::int64_t>(resolve_axis("logcumsumexp", axis, x.shape().size()))});
}

std::pair<Tensor, Tensor> cummax(const Tensor& x, std::int64_t axis) {
  return extreme_so_far("cummax", x, axis, false);
}
std::pair<Tensor, Tensor> cummin(const Tensor& x, std::int64_t axis) { return extreme_so_far("cummin", x, axis, true); }

}  // namespace adjoint

// sum, mean, prod, norm and logsumexp. Every rule computes in float32 if the operand has 16 bits, and rounds its result
// once. Values are spread before they are rounded, so that the next order's sum is in float32 too.
#include <adjoint/ops/reduce/reduce.h>

#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/define.h>

#include <cmath>

namespace adjoint {
namespace {

using namespace reducing;
using Context = Ctx<ReduceAttr>;

TensorSpec sum_spec(Operands in, const ReduceAttr& attr) {
  const DType dtype = in[0].dtype();
  return {result_shape(attr), is_floating_point(dtype) ? dtype : kInt64};
}

OnnxValue total_onnx(OnnxCall& call, const ReduceAttr& attr) {
  const char* const kind = call.name == "sum"    ? "Sum"
                           : call.name == "mean" ? "Mean"
                           : call.name == "prod" ? "Prod"
                                                 : "LogSumExp";
  return reduced_onnx(call, kind, summand_onnx(call), attr);
}

Tensor mean_gradient(const Context& c) { return spread(widened(c.grad) / c.attr.divisor, c.attr).to(c.grad.dtype()); }

constinit const OpDef<ReduceAttr> sum_op{.name = "sum",
                                         .infer = sum_spec,
                                         .cpu = cpu::reduce_sum,
                                         .cuda = ADJOINT_IF_CUDA(cuda::reduce_sum),
                                         .mixed_precision = MixedPrecision::kFull,
                                         .onnx = total_onnx,
                                         .vjp = {{{.rule = [](const Context& c) { return spread(c.grad, c.attr); }}}}};

constinit const OpDef<ReduceAttr> mean_op{.name = "mean",
                                          .infer = sum_spec,
                                          .cpu = cpu::reduce_sum,
                                          .cuda = ADJOINT_IF_CUDA(cuda::reduce_sum),
                                          .onnx = total_onnx,
                                          .vjp = {{{.rule = mean_gradient}}}};

// For each element of x (rows, n): g (rows, 1) times the product of the other elements of its row, without a division,
// so zeros need no special case. Neighbours are multiplied; the product of the other pairs goes to both members of a
// pair.
Tensor times_others(const Tensor& x, const Tensor& g) {
  const std::int64_t n = x.size(1), half = n / 2;
  if (n == 1) return g;
  const Tensor a = x.narrow(1, 0, half), b = x.narrow(1, half, half), rest = x.narrow(1, 2 * half, n - 2 * half);
  const Tensor others = times_others(cat({a * b, rest}, 1), g);
  const Tensor pairs = others.narrow(1, 0, half);
  return cat({pairs * b, pairs * a, others.narrow(1, half, n - 2 * half)}, 1);
}

Tensor prod_gradient(const Context& c) {
  const Tensor& x = c.in[0];
  if (x.numel() == 0) return Tensor::zeros(x.shape(), x.options());
  Dims order;
  for (const bool reduced : {false, true}) {
    for (std::size_t i = 0; i < x.shape().size(); ++i) {
      if (reduces(c.attr, i) == reduced) order.push_back(static_cast<std::int64_t>(i));
    }
  }
  Dims back = order;
  for (std::size_t i = 0; i < order.size(); ++i) {
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  const Tensor rows_last = widened(x).permute(order);
  const Tensor rows = rows_last.reshape({-1, reduced_numel(c.attr)});
  return times_others(rows, widened(c.grad).reshape({-1, 1})).reshape(rows_last.shape()).permute(back).to(x.dtype());
}

constinit const OpDef<ReduceAttr> prod_op{.name = "prod",
                                          .infer = sum_spec,
                                          .cpu = cpu::reduce_product,
                                          .cuda = ADJOINT_IF_CUDA(cuda::reduce_product),
                                          .mixed_precision = MixedPrecision::kFull,
                                          .onnx = total_onnx,
                                          .vjp = {{{.saves = kSaveIn0, .rule = prod_gradient}}}};

// The shares of exp(x) in its sum, independent of the result's rounding, which is a constant that scales both.
Tensor logsumexp_gradient(const Context& c) {
  const Tensor part = exp(widened(c.in[0]) - spread(widened(c.out.detach()), c.attr));
  const Tensor whole = part.sum(axes_of(c.attr), c.attr.keepdim);
  return (part * spread(widened(c.grad) / whole, c.attr)).to(c.grad.dtype());
}

constinit const OpDef<ReduceAttr> logsumexp_op{.name = "logsumexp",
                                               .infer = sum_spec,
                                               .cpu = cpu::logsumexp,
                                               .cuda = ADJOINT_IF_CUDA(cuda::logsumexp),
                                               .mixed_precision = MixedPrecision::kFull,
                                               .onnx = total_onnx,
                                               .vjp = {{{.saves = kSaveIn0 | kSaveOut, .rule = logsumexp_gradient}}}};

extern constinit const OpDef<PowerAttr> power_op;

// sign(x) (|x| / norm)^(p - 1) g, and 0 where the norm or x is 0. For an even p that is a power of x / norm, which has
// all derivatives where x is 0.
Tensor power_gradient(const Ctx<PowerAttr>& c) {
  const double p = c.attr.p;
  const Tensor x = widened(c.in[0]), g = widened(c.grad);
  if (p == 0.0) return Tensor::zeros(x.shape(), c.grad.options());
  if (p == 1.0) return (spread(g, c.attr.reduce) * sign(x)).to(c.grad.dtype());
  const Tensor norm = unrounded(power_op, c);
  const Tensor nothing = norm == 0.0;
  const Tensor ratio = x / spread(masked_fill(norm, nothing, 1.0), c.attr.reduce);
  const Tensor factor = spread(masked_fill(g, nothing, 0.0), c.attr.reduce);
  if (p == 2.0) return (ratio * factor).to(c.grad.dtype());
  if (p > 0.0 && std::fmod(p, 2.0) == 0.0) return (pow(ratio, p - 1.0) * factor).to(c.grad.dtype());
  const Tensor zero = x == 0.0;
  const Tensor power = masked_fill(pow(masked_fill(abs(ratio), zero, 1.0), p - 1.0), zero, 0.0);
  return (sign(x) * power * factor).to(c.grad.dtype());
}

OnnxValue power_onnx(OnnxCall& call, const PowerAttr& attr) {
  const OnnxValue x = call.operand(0);
  const DType dtype = call.in[0].dtype();
  if (attr.p == 1.0) return reduced_onnx(call, "L1", x, attr.reduce);
  if (attr.p == 2.0) return reduced_onnx(call, "L2", x, attr.reduce);
  if (attr.p == 0.0) return reduced_onnx(call, "Sum", call.cast(call.cast(x, kBool), dtype), attr.reduce);
  const OnnxValue power = call.add("Pow", {call.add("Abs", {x}), call.number(attr.p, dtype)});
  return call.add("Pow", {reduced_onnx(call, "Sum", power, attr.reduce), call.number(1.0 / attr.p, dtype)});
}

constinit const OpDef<PowerAttr> power_op{.name = "norm",
                                          .infer = [](Operands in,
                                                      const PowerAttr& attr) { return sum_spec(in, attr.reduce); },
                                          .cpu = cpu::reduce_power,
                                          .cuda = ADJOINT_IF_CUDA(cuda::reduce_power),
                                          .mixed_precision = MixedPrecision::kFull,
                                          .onnx = power_onnx,
                                          .vjp = {{{.saves = kSaveIn0 | kSaveOut, .rule = power_gradient}}}};

// The elements whose absolute value is the norm share the gradient.
Tensor extreme_norm_gradient(const Ctx<ExtremeAttr>& c) {
  const ReduceAttr& attr = c.attr.reduce;
  const Tensor x = widened(c.in[0]), g = widened(c.grad);
  const Tensor chosen = (abs(c.in[0]) == spread(c.out, attr)).to(g.dtype());
  return (sign(x) * chosen * spread(g / chosen.sum(axes_of(attr), attr.keepdim), attr)).to(c.grad.dtype());
}

OnnxValue extreme_norm_onnx(OnnxCall& call, const ExtremeAttr& attr) {
  return reduced_onnx(call, attr.least ? "Min" : "Max", call.add("Abs", {call.operand(0)}), attr.reduce);
}

constinit const OpDef<ExtremeAttr> extreme_norm_op{
    .name = "norm",
    .infer = [](Operands in, const ExtremeAttr& attr) { return sum_spec(in, attr.reduce); },
    .cpu = cpu::extreme,
    .cuda = ADJOINT_IF_CUDA(cuda::extreme),
    .mixed_precision = MixedPrecision::kFull,
    .onnx = extreme_norm_onnx,
    .vjp = {{{.saves = kSaveIn0 | kSaveOut, .rule = extreme_norm_gradient}}}};

}  // namespace

Tensor Tensor::sum() const { return sum({}); }
Tensor Tensor::mean() const { return mean({}); }

Tensor Tensor::sum(const Dims& axes, bool keepdim) const {
  return reduce_one(sum_op, *this, attributes("sum", *this, axes, keepdim));
}

Tensor Tensor::mean(const Dims& axes, bool keepdim) const {
  const OpScope scope("mean");
  ReduceAttr attr = attributes("mean", *this, axes, keepdim);
  check_floating("mean", *this);
  attr.divisor = static_cast<double>(reduced_numel(attr));
  return reduce_one(mean_op, *this, attr);
}

Tensor sum(const Tensor& input, const Dims& axes, bool keepdim) { return input.sum(axes, keepdim); }
Tensor mean(const Tensor& input, const Dims& axes, bool keepdim) { return input.mean(axes, keepdim); }

Tensor prod(const Tensor& input, const Dims& axes, bool keepdim) {
  return reduce_one(prod_op, input, attributes("prod", input, axes, keepdim));
}

Tensor logsumexp(const Tensor& input, const Dims& axes, bool keepdim) {
  const OpScope scope("logsumexp");
  const ReduceAttr attr = attributes("logsumexp", input, axes, keepdim);
  check_floating("logsumexp", input);
  return reduce_one(logsumexp_op, input, attr);
}

Tensor norm(const Tensor& input, double p, const Dims& axes, bool keepdim) {
  const OpScope scope("norm");
  const ReduceAttr attr = attributes("norm", input, axes, keepdim);
  check_floating("norm", input);
  ADJOINT_CHECK(!std::isnan(p), "norm: p must be a number; got {}", p);
  if (p < 0.0 || std::isinf(p)) check_elements("norm", attr, axes);
  if (std::isinf(p)) return reduce_one(extreme_norm_op, input, ExtremeAttr{attr, p < 0.0, true});
  return reduce_one(power_op, input, PowerAttr{attr, p});
}

}  // namespace adjoint

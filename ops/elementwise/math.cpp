// exp, log, sqrt, sin, cos, abs, sign, square, pow, clamp, minimum, maximum.
#include <adjoint/ops/elementwise/elementwise.h>

#include <adjoint/core/check.h>
#include <adjoint/core/scalar.h>
#include <adjoint/ops/elementwise/define.h>
#include <adjoint/ops/elementwise/widened.h>

#include <cmath>

namespace adjoint {
namespace {

using namespace functor;
using elementwise::binary;
using elementwise::define;
using elementwise::unary;
using elementwise::with_scalar;

using Context = Ctx<NoAttr>;
using ScalarContext = Ctx<ScalarAttr>;
using BoundsContext = Ctx<BoundsAttr>;
using Rule = Vjp<NoAttr>;
using ScalarRule = Vjp<ScalarAttr>;
using BoundsRule = Vjp<BoundsAttr>;

constinit const auto exp_op = define<Exp>(Rule{kSaveOut, [](const Context& c) { return c.grad * c.out; }});
constinit const auto log_op = define<Log>(Rule{kSaveIn0, [](const Context& c) { return c.grad / c.in[0]; }});
constinit const auto sqrt_op = define<Sqrt>(Rule{kSaveOut, [](const Context& c) { return c.grad * 0.5 / c.out; }});
constinit const auto sin_op = define<Sin>(Rule{kSaveIn0, [](const Context& c) { return c.grad * cos(c.in[0]); }});
constinit const auto cos_op = define<Cos>(Rule{kSaveIn0, [](const Context& c) { return -(c.grad * sin(c.in[0])); }});
constinit const auto square_op =
    define<Square>(Rule{kSaveIn0, [](const Context& c) { return c.grad * c.in[0] * 2.0; }});
constinit const auto sign_op =
    define<Sign>(Rule{kSaveNone, [](const Context& c) { return Tensor::zeros(c.grad.shape(), c.grad.options()); }});

constinit const OpDef<NoAttr> abs_grad_op =
    define<AbsGrad>(Rule{kSaveIn1, [](const Context& c) { return binary(abs_grad_op, c.grad, c.in[1]); }});
constinit const auto abs_op =
    define<Abs>(Rule{kSaveIn0, [](const Context& c) { return binary(abs_grad_op, c.grad, c.in[0]); }});

constinit const OpDef<BoundsAttr> clamp_grad_op =
    define<ClampGrad>(BoundsRule{kSaveIn1, [](const BoundsContext& c) {
                                   return apply(clamp_grad_op, {c.grad, c.in[1]}, c.attr);
                                 }});
constinit const auto clamp_op = define<Clamp>(BoundsRule{kSaveIn0, [](const BoundsContext& c) {
                                                           return apply(clamp_grad_op, {c.grad, c.in[0]}, c.attr);
                                                         }});

constinit const OpDef<NoAttr> maximum_grad_op =
    define<MaximumGrad>(Rule{kSaveIn1 | kSaveIn2, [](const Context& c) {
                               return apply(maximum_grad_op, {c.grad, c.in[1], c.in[2]});
                             }});

// Of operand c.index; c.in[1 - c.index] is the other. minimum's operands change places.
template <bool kMaximum>
Tensor extremum_gradient(const Context& c) {
  const Tensor& self = c.in[c.index];
  const Tensor& other = c.in[1 - c.index];
  return kMaximum ? apply(maximum_grad_op, {c.grad, self, other}) : apply(maximum_grad_op, {c.grad, other, self});
}
constinit const auto maximum_op = define<Maximum>(Rule{kSaveIn0 | kSaveIn1, extremum_gradient<true>},
                                                  Rule{kSaveIn0 | kSaveIn1, extremum_gradient<true>});
constinit const auto minimum_op = define<Minimum>(Rule{kSaveIn0 | kSaveIn1, extremum_gradient<false>},
                                                  Rule{kSaveIn0 | kSaveIn1, extremum_gradient<false>});

Tensor pow_scalar_gradient(const ScalarContext& c) {
  if (c.attr.value == 0.0) return Tensor::zeros(c.grad.shape(), c.grad.options());
  return c.grad * (pow(c.in[0], c.attr.value - 1.0) * c.attr.value);
}
constinit const auto pow_scalar_op =
    define<PowScalar>(ScalarRule{kSaveIn0, rounded_once<pow_scalar_gradient, ScalarAttr>});

// A gradient is 0 by choice where its formula would be 0 * infinity: there each factor is replaced by one that is
// finite, and 0 or constant, so that no order finds an infinity to multiply.

Tensor both(const Tensor& a, const Tensor& b) {
  return where(a, b, Tensor::zeros(Shape{}, {.dtype = kBool, .device = b.device()}));
}
Tensor replaced(const Tensor& x, const Tensor& condition, double value) {
  return where(condition, Tensor::full(Shape{}, value, x.options()), x);
}

Tensor pow_base_gradient(const Context& c) {
  const Tensor &base = c.in[0], &exponent = c.in[1];
  const Tensor reciprocal = 1.0 / base.detach();
  const Tensor flat = both(exponent == 0.0, reciprocal - reciprocal != 0.0);  // where that is not finite
  const Tensor power = pow(replaced(base, flat, 1.0), exponent - 1.0);
  return replaced(c.grad, flat, 0.0) * (replaced(exponent, flat, 0.0) * power);
}
Tensor pow_exponent_gradient(const Context& c) {
  const Tensor flat = both(c.in[1] >= 0.0, c.in[0] == 0.0);
  const Tensor base = replaced(c.in[0], flat, 1.0);
  return replaced(c.grad, flat, 0.0) * pow(base, c.in[1]) * log(base);
}
constinit const auto pow_op = define<Pow>(Rule{kSaveIn0 | kSaveIn1, rounded_once<pow_base_gradient, NoAttr>},
                                          Rule{kSaveIn0 | kSaveIn1, rounded_once<pow_exponent_gradient, NoAttr>});

}  // namespace

Tensor exp(const Tensor& x) { return unary(exp_op, x); }
Tensor log(const Tensor& x) { return unary(log_op, x); }
Tensor sqrt(const Tensor& x) { return unary(sqrt_op, x); }
Tensor sin(const Tensor& x) { return unary(sin_op, x); }
Tensor cos(const Tensor& x) { return unary(cos_op, x); }
Tensor abs(const Tensor& x) { return unary(abs_op, x); }
Tensor sign(const Tensor& x) { return unary(sign_op, x); }
Tensor square(const Tensor& x) { return unary(square_op, x); }
Tensor pow(const Tensor& base, double exponent) { return with_scalar(pow_scalar_op, base, exponent); }
Tensor pow(const Tensor& base, const Tensor& exponent) { return binary(pow_op, base, exponent); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(minimum_op, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(maximum_op, a, b); }

Tensor clamp(const Tensor& x, double low, double high) {
  check_defined("clamp", "x", x);
  ADJOINT_CHECK(!std::isnan(low) && !std::isnan(high), "clamp: bounds must not be NaN; got {} and {}", low, high);
  const auto fit = [&](double bound) {
    return std::isinf(bound) ? bound : fit_scalar("clamp", bound, x.dtype(), x.shape());
  };
  return unary(clamp_op, x, BoundsAttr{fit(low), fit(high)});
}
Tensor clamp_min(const Tensor& x, double low) {
  const OpScope scope("clamp_min");
  return clamp(x, low, std::numeric_limits<double>::infinity());
}
Tensor clamp_max(const Tensor& x, double high) {
  const OpScope scope("clamp_max");
  return clamp(x, -std::numeric_limits<double>::infinity(), high);
}

}  // namespace adjoint

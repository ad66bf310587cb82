// Mathematics of one operand, from its tables, and of several, with their rules.
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
using elementwise::ternary;
using elementwise::unary;
using elementwise::with_scalar;

using Context = Ctx<NoAttr>;
using ScalarContext = Ctx<ScalarAttr>;
using Rule = Vjp<NoAttr>;
using ScalarRule = Vjp<ScalarAttr>;

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

Tensor atan2_y_gradient(const Context& c) { return c.grad * (c.in[1] / (square(c.in[0]) + square(c.in[1]))); }
Tensor atan2_x_gradient(const Context& c) { return -(c.grad * (c.in[0] / (square(c.in[0]) + square(c.in[1])))); }
constinit const auto atan2_op = define<Atan2>(Rule{kSaveIn0 | kSaveIn1, rounded_once<atan2_y_gradient, NoAttr>},
                                              Rule{kSaveIn0 | kSaveIn1, rounded_once<atan2_x_gradient, NoAttr>});

Tensor pass(const Context& c) { return c.grad; }
Tensor fmod_divisor_gradient(const Context& c) { return -(c.grad * trunc(c.in[0] / c.in[1])); }
constinit const auto fmod_op =
    define<Fmod>(Rule{kSaveNone, pass}, Rule{kSaveIn0 | kSaveIn1, rounded_once<fmod_divisor_gradient, NoAttr>});
// floor(a / b), which is -1 also where a / b lies below 0 and rounds to -0, as of -1 and infinity.
Tensor remainder_divisor_gradient(const Context& c) {
  const Tensor quotient = c.in[0] / c.in[1];
  const Tensor below = both(quotient == 0.0, remainder(c.in[0], c.in[1]) != c.in[0]);
  return -(c.grad * where(below, -1.0, floor(quotient)));
}
constinit const auto remainder_op =
    define<Remainder>(Rule{kSaveNone, pass},
                      Rule{kSaveIn0 | kSaveIn1, rounded_once<remainder_divisor_gradient, NoAttr>});

Tensor lerp_start_gradient(const Context& c) { return c.grad * (1.0 - c.in[2]); }
Tensor lerp_weight_gradient(const Context& c) { return c.grad * (c.in[1] - c.in[0]); }
constinit const auto lerp_op = define<Lerp>(Rule{kSaveIn2, rounded_once<lerp_start_gradient, NoAttr>},
                                            Rule{kSaveIn2, [](const Context& c) { return c.grad * c.in[2]; }},
                                            Rule{kSaveIn0 | kSaveIn1, rounded_once<lerp_weight_gradient, NoAttr>});

}  // namespace

#define ADJOINT_FUNCTION(F, name) \
  Tensor name(const Tensor& x) { return unary(elementwise::UnaryOp<functor::F>::op, x); }
ADJOINT_UNARY_MATH_FUNCTIONS(ADJOINT_FUNCTION)
#undef ADJOINT_FUNCTION
#define ADJOINT_FUNCTION(F, name)                                                                    \
  Tensor name(const Tensor& x) {                                                                     \
    static constinit const auto op = define<F>(Rule{kSaveNone, elementwise::zero_gradient<NoAttr>}); \
    return unary(op, x);                                                                             \
  }
ADJOINT_STEP_FUNCTIONS(ADJOINT_FUNCTION)
#undef ADJOINT_FUNCTION

Tensor pow(const Tensor& base, double exponent) { return with_scalar(pow_scalar_op, base, exponent); }
Tensor pow(const Tensor& base, const Tensor& exponent) { return binary(pow_op, base, exponent); }
Tensor pow(double base, const Tensor& exponent) {
  return binary(pow_op, elementwise::scalar_like("pow", base, exponent), exponent);
}
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(minimum_op, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(maximum_op, a, b); }
Tensor atan2(const Tensor& y, const Tensor& x) { return binary(atan2_op, y, x); }
Tensor fmod(const Tensor& a, const Tensor& b) { return binary(fmod_op, a, b); }
Tensor fmod(const Tensor& a, double b) { return binary(fmod_op, a, elementwise::scalar_like("fmod", b, a)); }
Tensor remainder(const Tensor& a, const Tensor& b) { return binary(remainder_op, a, b); }
Tensor remainder(const Tensor& a, double b) {
  return binary(remainder_op, a, elementwise::scalar_like("remainder", b, a));
}
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  return ternary(lerp_op, start, end, weight);
}
Tensor lerp(const Tensor& start, const Tensor& end, double weight) {
  return ternary(lerp_op, start, end, elementwise::scalar_like("lerp", weight, start));
}

Tensor clamp(const Tensor& x, double low, double high) {
  check_defined("clamp", "x", x);
  ADJOINT_CHECK(!std::isnan(low) && !std::isnan(high), "clamp: bounds must not be NaN; got {} and {}", low, high);
  const auto fit = [&](double bound) {
    return std::isinf(bound) ? bound : fit_scalar("clamp", bound, x.dtype(), x.shape());
  };
  return unary(elementwise::UnaryOp<Clamp>::op, x, PairAttr{fit(low), fit(high)});
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

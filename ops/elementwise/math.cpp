// Mathematical functions of one operand, from their tables, and of several, with their rules.
#include <adjoint/ops/elementwise/elementwise.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/ops/elementwise/define.h>
#include <adjoint/ops/elementwise/widened.h>

#include <array>
#include <cmath>

namespace adjoint {
namespace {

using namespace functor;
using elementwise::binary;
using elementwise::define;
using elementwise::define_gradient;
using elementwise::ternary;
using elementwise::unary;
using elementwise::with_scalar;

using Context = Ctx<NoAttr>;
using ScalarContext = Ctx<ScalarAttr>;
using Rule = Vjp<NoAttr>;
using ScalarRule = Vjp<ScalarAttr>;

constinit const OpDef<NoAttr> maximum_grad_op =
    define_gradient<MaximumGrad>(Rule{kSaveIn1 | kSaveIn2, [](const Context& c) {
                                        return apply(maximum_grad_op, {c.grad, c.in[1], c.in[2]});
                                      }});

// The gradient of operand c.index; c.in[1 - c.index] is the other. For minimum the operands swap places.
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

// A gradient is 0 by choice if its formula would give 0 * infinity. There each factor is replaced by one that is
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
  const Tensor flat =
      both(exponent == 0.0, reciprocal - reciprocal != 0.0);  // masks where the reciprocal is not finite
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

// other / (y^2 + x^2), with y and x divided by the larger of them, as a constant, so that no square exceeds the range.
Tensor over_squares(const Context& c, const Tensor& other) {
  const Tensor larger = maximum(abs(c.in[0].detach()), abs(c.in[1].detach()));
  const Tensor scale = where(both(larger > 0.0, isfinite(larger)), larger, 1.0);
  return other / scale / (square(c.in[0] / scale) + square(c.in[1] / scale)) / scale;
}
Tensor atan2_y_gradient(const Context& c) { return c.grad * over_squares(c, c.in[1]); }
Tensor atan2_x_gradient(const Context& c) { return -(c.grad * over_squares(c, c.in[0])); }
constinit const auto atan2_op = define<Atan2>(Rule{kSaveIn0 | kSaveIn1, rounded_once<atan2_y_gradient, NoAttr>},
                                              Rule{kSaveIn0 | kSaveIn1, rounded_once<atan2_x_gradient, NoAttr>});

Tensor pass(const Context& c) { return c.grad; }
Tensor fmod_divisor_gradient(const Context& c) { return -(c.grad * trunc(c.in[0] / c.in[1])); }
constinit const auto fmod_op =
    define<Fmod>(Rule{kSaveNone, pass}, Rule{kSaveIn0 | kSaveIn1, rounded_once<fmod_divisor_gradient, NoAttr>});
// floor(a / b), which is -1 also if a / b is below 0 but rounds to -0, as for -1 and infinity.
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

Tensor pow(const Tensor& base, const Scalar& exponent) {
  check_defined("pow", "base", base);
  ADJOINT_CHECK(is_floating_point(base.dtype()) || exponent.is_floating_point() || exponent.to<std::int64_t>() >= 0,
                "pow: integers have no negative powers; got exponent {} for {} {}; convert with to(kFloat32)",
                exponent.to<std::int64_t>(), base.dtype(), base.shape());
  return with_scalar(pow_scalar_op, base, exponent);
}
Tensor pow(const Tensor& base, const Tensor& exponent) { return binary(pow_op, base, exponent); }
Tensor pow(const Scalar& base, const Tensor& exponent) {
  return binary(pow_op, elementwise::scalar_like("pow", base, exponent), exponent);
}
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(minimum_op, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(maximum_op, a, b); }
Tensor atan2(const Tensor& y, const Tensor& x) { return binary(atan2_op, y, x); }
Tensor fmod(const Tensor& a, const Tensor& b) { return binary(fmod_op, a, b); }
Tensor fmod(const Tensor& a, const Scalar& b) { return binary(fmod_op, a, elementwise::scalar_like("fmod", b, a)); }
Tensor remainder(const Tensor& a, const Tensor& b) { return binary(remainder_op, a, b); }
Tensor remainder(const Tensor& a, const Scalar& b) {
  return binary(remainder_op, a, elementwise::scalar_like("remainder", b, a));
}
Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
Tensor operator%(const Tensor& a, const Scalar& b) { return remainder(a, b); }
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  return ternary(lerp_op, start, end, weight);
}
Tensor lerp(const Tensor& start, const Tensor& end, double weight) {
  return ternary(lerp_op, start, end, elementwise::scalar_like("lerp", weight, start));
}

namespace {

// The bounds in `dtype`. An omitted or infinite bound does not clamp.
PairAttr bounds_of(const Tensor& x, DType dtype, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  const auto fit = [&](const std::optional<Scalar>& bound, double none) {
    if (!bound.has_value()) return none;
    if (!bound->is_floating_point()) return fit_scalar("clamp", *bound, dtype, x.shape());
    const double real = *bound;
    ADJOINT_CHECK(!std::isnan(real), "clamp: bounds must not be NaN; got one for {} {}", x.dtype(), x.shape());
    return std::isinf(real) ? real : fit_scalar("clamp", real, dtype, x.shape());
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {fit(low, -kInfinity), fit(high, kInfinity)};
}

Tensor clamped(const Tensor& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  check_defined("clamp", "x", x);
  const OpScope scope("clamp");
  DType dtype = x.dtype();
  for (const auto& bound : {low, high}) {
    if (bound.has_value()) dtype = promote(dtype, *bound);
  }
  return unary(elementwise::UnaryOp<Clamp>::op, x.to(dtype), bounds_of(x, dtype, low, high));
}

Tensor& clamp_in_place(const char* name, Tensor& x, const std::optional<Scalar>& low,
                       const std::optional<Scalar>& high) {
  const OpScope scope(name);
  check_writable(name, x);
  apply_into(elementwise::UnaryOp<Clamp>::op, x, Operands(&x, 1), bounds_of(x, x.dtype(), low, high));
  return x;
}

}  // namespace

Tensor clamp(const Tensor& x, const Scalar& low, const Scalar& high) { return clamped(x, low, high); }
Tensor clamp_min(const Tensor& x, const Scalar& low) {
  const OpScope scope("clamp_min");
  return clamped(x, low, {});
}
Tensor clamp_max(const Tensor& x, const Scalar& high) {
  const OpScope scope("clamp_max");
  return clamped(x, {}, high);
}

Tensor& Tensor::clamp_(const Scalar& low, const Scalar& high) { return clamp_in_place("clamp_", *this, low, high); }
Tensor& Tensor::clamp_min_(const Scalar& low) { return clamp_in_place("clamp_min_", *this, low, {}); }
Tensor& Tensor::clamp_max_(const Scalar& high) { return clamp_in_place("clamp_max_", *this, {}, high); }

Tensor& Tensor::lerp_(const Tensor& end, const Tensor& weight) {
  const OpScope scope("lerp_");
  check_writable("lerp_", *this, std::array{end, weight});
  const Tensor operands[] = {*this, elementwise::update_operand(*this, end),
                             elementwise::update_operand(*this, weight)};
  apply_into(lerp_op, *this, operands, NoAttr{});
  return *this;
}
Tensor& Tensor::lerp_(const Tensor& end, double weight) {
  const OpScope scope("lerp_");
  return lerp_(end, elementwise::scalar_like("lerp_", weight, *this));
}

}  // namespace adjoint

// ONNX's operators on elements: arithmetic, functions, comparisons, logic and casts.
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/functions.h>

namespace adjoint::nn::detail {
namespace {

template <Tensor (*kFunction)(const Tensor&)>
OnnxResults of_one(const OnnxArgs& x) {
  return {kFunction(x[0])};
}
// A function of several steps, which would round 16-bit elements one after the other.
template <Tensor (*kFunction)(const Tensor&)>
OnnxResults of_one_widened(const OnnxArgs& x) {
  return {kFunction(widened(x[0])).to(x[0].dtype())};
}
template <Tensor (*kFunction)(const Tensor&, const Tensor&)>
OnnxResults of_two(const OnnxArgs& x) {
  return {kFunction(x[0], x[1])};
}
template <Tensor (*kFunction)(const Tensor&, const Tensor&)>
Tensor of_all(const OnnxArgs& x) {
  Tensor result = x[0];
  for (std::size_t i = 1; i < x.in.size(); ++i) result = kFunction(result, x[i]);
  return result;
}
template <Tensor (*kFunction)(const Tensor&, const Tensor&)>
OnnxResults of_several(const OnnxArgs& x) {
  return {of_all<kFunction>(x)};
}

// ---- Functions that the library lacks, without squares that overflow and with all digits near 0.

Tensor arcosh(const Tensor& x) {
  const Tensor above = x - 1;
  return log1p(above + sqrt(above) * sqrt(above + 2));
}
Tensor arsinh(const Tensor& x) {
  const Tensor negative = x < 0;
  const Tensor a = where(negative, -x, x);  // |x| with a gradient at 0
  const Tensor result = log1p(a + a * (a / (1 + hypot(a, ones_like(a)))));
  return where(negative, -result, result);
}
Tensor artanh(const Tensor& x) { return (log1p(x) - log1p(-x)) * 0.5; }

// ---- Arithmetic.

Tensor added(const Tensor& a, const Tensor& b) { return a + b; }
Tensor subtracted(const Tensor& a, const Tensor& b) { return a - b; }

OnnxResults quotient(const OnnxArgs& x) {
  const bool whole = !x[0].is_floating_point() && !x[1].is_floating_point();
  return {whole ? div(x[0], x[1], "trunc") : x[0] / x[1]};
}

OnnxResults modulo(const OnnxArgs& x) { return {x.integer("fmod", 0) != 0 ? fmod(x[0], x[1]) : remainder(x[0], x[1])}; }

// The exponent is no parameter: its gradient is NaN at negative bases, and squares must stay squares.
OnnxResults power(const OnnxArgs& x) {
  const Tensor &base = x[0], &exponent = x[1];
  if (!base.is_floating_point()) {
    if (!exponent.is_floating_point()) return {pow(base, exponent.to(base.device())).to(base.dtype())};
    return {pow(base.to(kFloat64), exponent.to(base.device(), kFloat64)).to(base.dtype())};
  }
  // A number as exponent is faster, and the gradient needs no logarithm.
  const bool is_number = exponent.numel() == 1 && exponent.dim() <= base.dim();
  if (is_number && exponent.is_cpu() && !exponent.requires_grad()) return {pow(base, exponent.item())};
  return {pow(base, exponent.to(base))};
}

OnnxResults shifted(const OnnxArgs& x) {
  const std::string direction = x.text("direction", "");
  if (x[0].dtype() != kUInt8 || x[1].dtype() != kUInt8) x.refuse("its inputs must be uint8, the one unsigned dtype");
  if (direction != "LEFT" && direction != "RIGHT")
    x.refuse("its direction must be LEFT or RIGHT; got '" + direction + "'");
  const Tensor bits = x[0].to(kInt32);
  const Tensor factor = pow(2, clamp_max(x[1], 8).to(kInt32));  // 8 shifts every bit out
  return {(direction == "LEFT" ? bits * factor : div(bits, factor, "trunc")).to(kUInt8)};
}

// ---- Comparisons and casts.

OnnxResults infinities(const OnnxArgs& x) {
  Tensor found = isinf(x[0]);
  if (x.integer("detect_negative", 1) == 0) found = found & (x[0] > 0);
  if (x.integer("detect_positive", 1) == 0) found = found & (x[0] < 0);
  return {found};
}

OnnxResults cast(const OnnxArgs& x) {
  if (!x.has_attribute("to")) x.refuse("its attribute to is missing");
  return {x[0].to(dtype_of_onnx(x.integer("to", 0), "Cast node '" + x.node.name + "'"))};
}

constexpr OnnxOperator kMathOperators[] = {
    {.type = "Abs", .run = of_one<abs>},
    {.type = "Acos", .run = of_one<acos>},
    {.type = "Acosh", .run = of_one_widened<arcosh>},
    {.type = "Add", .run = of_two<added>},
    {.type = "And", .run = of_two<logical_and>},
    {.type = "Asin", .run = of_one<asin>},
    {.type = "Asinh", .run = of_one_widened<arsinh>},
    {.type = "Atan", .run = of_one<atan>},
    {.type = "Atanh", .run = of_one_widened<artanh>},
    {.type = "BitShift", .run = shifted, .attributes = "direction"},
    {.type = "Cast", .run = cast, .attributes = "to"},
    {.type = "CastLike", .run = [](const OnnxArgs& x) -> OnnxResults { return {x[0].to(x[1].dtype())}; }},
    {.type = "Ceil", .run = of_one<ceil>},
    {.type = "Cos", .run = of_one<cos>},
    {.type = "Cosh", .run = of_one<cosh>},
    {.type = "Div", .run = quotient},
    {.type = "Equal", .run = of_two<eq>},
    {.type = "Erf", .run = of_one<erf>},
    {.type = "Exp", .run = of_one<exp>},
    {.type = "Floor", .run = of_one<floor>},
    {.type = "Greater", .run = of_two<gt>},
    {.type = "GreaterOrEqual", .run = of_two<ge>},
    {.type = "Identity", .run = [](const OnnxArgs& x) -> OnnxResults { return {x[0]}; }},
    {.type = "IsInf", .run = infinities, .attributes = "detect_negative detect_positive"},
    {.type = "IsNaN", .run = of_one<isnan>},
    {.type = "Less", .run = of_two<lt>},
    {.type = "LessOrEqual", .run = of_two<le>},
    {.type = "Log", .run = of_one<log>},
    {.type = "Max", .run = of_several<maximum>},
    {.type = "Mean",
     .run = [](const OnnxArgs& x) -> OnnxResults {
       return {of_all<added>(x) / static_cast<std::int64_t>(x.in.size())};
     }},
    {.type = "Min", .run = of_several<minimum>},
    {.type = "Mod", .run = modulo, .attributes = "fmod"},
    {.type = "Mul", .run = of_two<mul>},
    {.type = "Neg", .run = of_one<neg>},
    {.type = "Not", .run = of_one<logical_not>},
    {.type = "Or", .run = of_two<logical_or>},
    {.type = "Pow", .run = power, .settings = 2},
    {.type = "Reciprocal", .run = of_one<reciprocal>},
    {.type = "Round", .run = of_one<round>},
    {.type = "Sign", .run = of_one<sign>},
    {.type = "Sin", .run = of_one<sin>},
    {.type = "Sinh", .run = of_one<sinh>},
    {.type = "Sqrt", .run = of_one<sqrt>},
    {.type = "Sub", .run = of_two<subtracted>},
    {.type = "Sum", .run = of_several<added>},
    {.type = "Tan", .run = of_one<tan>},
    {.type = "Where", .run = [](const OnnxArgs& x) -> OnnxResults { return {where(x[0], x[1], x[2])}; }},
    {.type = "Xor", .run = of_two<logical_xor>},
};

}  // namespace

std::span<const OnnxOperator> onnx_math_operators() { return kMathOperators; }

}  // namespace adjoint::nn::detail

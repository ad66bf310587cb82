// Elementwise operators in ONNX: one table for all of them, and the terms of its formulas. Internal to ops.
#pragma once

#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/functor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace adjoint::elementwise {

/// A value in a formula, whose functions add nodes.
struct OnnxTerm {
  OnnxCall* call;
  OnnxValue value;
  DType dtype;

  /// A node whose first input is this term.
  OnnxTerm node(const char* type, std::initializer_list<OnnxTerm> others = {},
                const OnnxAttributes& attributes = {}) const;
  /// A constant of this term's dtype.
  OnnxTerm number(double x) const { return {call, call->number(x, dtype), dtype}; }
  bool is_integer() const { return !is_floating_point(dtype); }

  friend OnnxTerm operator-(const OnnxTerm& a) { return a.node("Neg"); }
  friend OnnxTerm operator+(const OnnxTerm& a, const OnnxTerm& b) { return a.node("Add", {b}); }
  friend OnnxTerm operator-(const OnnxTerm& a, const OnnxTerm& b) { return a.node("Sub", {b}); }
  friend OnnxTerm operator*(const OnnxTerm& a, const OnnxTerm& b) { return a.node("Mul", {b}); }
  friend OnnxTerm operator/(const OnnxTerm& a, const OnnxTerm& b) { return a.node("Div", {b}); }
  friend OnnxTerm operator<(const OnnxTerm& a, const OnnxTerm& b) { return a.test("Less", b); }
  friend OnnxTerm operator>(const OnnxTerm& a, const OnnxTerm& b) { return a.test("Greater", b); }
  friend OnnxTerm operator==(const OnnxTerm& a, const OnnxTerm& b) { return a.test("Equal", b); }
  friend OnnxTerm operator+(const OnnxTerm& a, double b) { return a + a.number(b); }
  friend OnnxTerm operator-(const OnnxTerm& a, double b) { return a - a.number(b); }
  friend OnnxTerm operator-(double a, const OnnxTerm& b) { return b.number(a) - b; }
  friend OnnxTerm operator*(const OnnxTerm& a, double b) { return a * a.number(b); }
  friend OnnxTerm operator/(const OnnxTerm& a, double b) { return a / a.number(b); }
  friend OnnxTerm operator<(const OnnxTerm& a, double b) { return a < a.number(b); }
  friend OnnxTerm operator>(const OnnxTerm& a, double b) { return a > a.number(b); }
  friend OnnxTerm operator==(const OnnxTerm& a, double b) { return a == a.number(b); }

 private:
  OnnxTerm test(const char* type, const OnnxTerm& other) const { return {call, node(type, {other}).value, kBool}; }
};
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline OnnxTerm abs(const OnnxTerm& x) { return x.node("Abs"); }
inline OnnxTerm scaled(const OnnxTerm& x, double factor) { return factor == 1.0 ? x : x * factor; }
OnnxTerm where(const OnnxTerm& condition, const OnnxTerm& a, const OnnxTerm& b);
/// min(max(x, low), high); an infinite bound is left out.
OnnxTerm clip(const OnnxTerm& x, double low, double high);
/// a - trunc(a / b) b, or a - floor(a / b) b; 0 for integers if b is 0.
OnnxTerm rest_of_trunc(const OnnxTerm& a, const OnnxTerm& b);
OnnxTerm rest_of_floor(const OnnxTerm& a, const OnnxTerm& b);
/// The angle of the point (x, y), in [-pi, pi]; signed zeros and infinities count.
OnnxTerm angle(const OnnxTerm& y, const OnnxTerm& x);

/// The dtypes in which ONNX and ONNX Runtime compute a formula. kNumbers: uint8 and bool become int32 before, and the
/// result becomes uint8 or bool again. kTruth: all operands become bool.
enum class OnnxTypes : std::uint8_t { kNumbers, kTruth, kAll };

/// An operator in ONNX: a node, whose inputs are the operands and then the attributes' numbers, or a formula of them.
struct OnnxFormula {
  using Terms = std::vector<OnnxTerm>;
  using Numbers = std::span<const double>;

  std::string_view name;  // the operator's
  const char* type = nullptr;
  OnnxTerm (*formula)(const Terms& x, Numbers numbers) = nullptr;
  OnnxTypes types = OnnxTypes::kNumbers;
  /// The number on the right that changes nothing.
  std::optional<double> neutral = {};
};

namespace formulas {

using Terms = const OnnxFormula::Terms&;
using Numbers = OnnxFormula::Numbers;

// clang-format off
inline constexpr OnnxFormula kOnnxFormulas[] = {
    {.name = "add", .type = "Add", .neutral = 0.0},
    {.name = "sub", .type = "Sub", .neutral = 0.0},
    {.name = "mul", .type = "Mul", .neutral = 1.0},
    {.name = "div", .type = "Div", .neutral = 1.0},
    {.name = "neg", .type = "Neg"},
    {.name = "add_", .formula = [](Terms x, Numbers n) { return x[0] + scaled(x[1], n[0]); }},
    {.name = "addcmul_", .formula = [](Terms x, Numbers n) { return x[0] + scaled(x[1], n[0]) * x[2]; }},
    {.name = "addcdiv_", .formula = [](Terms x, Numbers n) { return x[0] + scaled(x[1], n[0]) / x[2]; }},

    {.name = "eq", .type = "Equal"},
    {.name = "ne", .formula = [](Terms x, Numbers n) { return (n.empty() ? x[0] == x[1] : x[0] == n[0]).node("Not"); }},
    {.name = "lt", .type = "Less"},
    {.name = "le", .type = "LessOrEqual"},
    {.name = "gt", .type = "Greater"},
    {.name = "ge", .type = "GreaterOrEqual"},
    {.name = "logical_and", .type = "And", .types = OnnxTypes::kTruth},
    {.name = "logical_or", .type = "Or", .types = OnnxTypes::kTruth},
    {.name = "logical_xor", .type = "Xor", .types = OnnxTypes::kTruth},
    {.name = "logical_not", .type = "Not", .types = OnnxTypes::kTruth},
    {.name = "isnan", .formula = [](Terms x, Numbers) { return x[0].is_integer() ? x[0] < x[0] : x[0].node("IsNaN"); }},
    // IsInf does not take float16.
    {.name = "isinf", .formula = [](Terms x, Numbers) {
       return x[0].is_integer() ? x[0] < x[0] : abs(x[0]) == kInfinity; }},
    {.name = "isfinite", .formula = [](Terms x, Numbers) {
       return x[0].is_integer() ? x[0] == x[0] : abs(x[0]) < kInfinity; }},
    // ONNX Runtime selects all dtypes but bool.
    {.name = "where", .formula = [](Terms x, Numbers) {
       if (x[1].dtype != kBool) return where(x[0], x[1], x[2]);
       return x[0].node("And", {x[1]}).node("Or", {x[0].node("Not").node("And", {x[2]})}); },
     .types = OnnxTypes::kAll},
    {.name = "nan_to_num", .formula = [](Terms x, Numbers n) {
       const OnnxTerm y = where(x[0].node("IsNaN"), x[0].number(n[0]), x[0]);
       return where(y == kInfinity, y.number(n[1]), where(y == -kInfinity, y.number(n[2]), y)); }},

    {.name = "exp", .type = "Exp"},
    {.name = "expm1", .formula = [](Terms x, Numbers) { return x[0].node("Exp") - 1.0; }},
    {.name = "log", .type = "Log"},
    {.name = "log1p", .formula = [](Terms x, Numbers) { return (x[0] + 1.0).node("Log"); }},
    {.name = "log2", .formula = [](Terms x, Numbers) { return x[0].node("Log") * std::numbers::log2e; }},
    {.name = "sqrt", .type = "Sqrt"},
    {.name = "rsqrt", .formula = [](Terms x, Numbers) { return x[0].node("Sqrt").node("Reciprocal"); }},
    {.name = "reciprocal", .type = "Reciprocal"},
    {.name = "square", .formula = [](Terms x, Numbers) { return x[0] * x[0]; }},
    {.name = "sin", .type = "Sin"},
    // ONNX Runtime has the Sin of float64, but not the Cos.
    {.name = "cos", .formula = [](Terms x, Numbers) {
       return x[0].dtype == kFloat64 ? (x[0] + std::numbers::pi / 2.0).node("Sin") : x[0].node("Cos"); }},
    {.name = "tan", .type = "Tan"},
    {.name = "asin", .type = "Asin"},
    {.name = "acos", .type = "Acos"},
    {.name = "atan", .type = "Atan"},
    {.name = "sinh", .type = "Sinh"},
    {.name = "cosh", .type = "Cosh"},
    {.name = "erf", .type = "Erf"},
    {.name = "abs", .type = "Abs"},
    // 0 for NaN.
    {.name = "sign", .formula = [](Terms x, Numbers) {
       const OnnxTerm sign = x[0].node("Sign");
       return x[0].is_integer() ? sign : where(x[0].node("IsNaN"), x[0].number(0.0), sign); }},
    {.name = "floor", .formula = [](Terms x, Numbers) { return x[0].is_integer() ? x[0] : x[0].node("Floor"); }},
    {.name = "ceil", .formula = [](Terms x, Numbers) { return x[0].is_integer() ? x[0] : x[0].node("Ceil"); }},
    {.name = "trunc", .formula = [](Terms x, Numbers) {
       return x[0].is_integer() ? x[0] : abs(x[0]).node("Floor") * x[0].node("Sign"); }},
    {.name = "round", .formula = [](Terms x, Numbers) { return x[0].is_integer() ? x[0] : x[0].node("Round"); }},
    {.name = "pow", .type = "Pow"},
    {.name = "minimum", .type = "Min"},
    {.name = "maximum", .type = "Max"},
    {.name = "clamp", .formula = [](Terms x, Numbers n) { return clip(x[0], n[0], n[1]); }},
    {.name = "fmod", .formula = [](Terms x, Numbers) { return rest_of_trunc(x[0], x[1]); }},
    {.name = "remainder", .formula = [](Terms x, Numbers) { return rest_of_floor(x[0], x[1]); }},
    // From the nearer end, so that both ends are exact.
    {.name = "lerp", .formula = [](Terms x, Numbers) {
       const OnnxTerm way = x[1] - x[0];
       return where(abs(x[2]) < 0.5, x[0] + x[2] * way, x[1] - way * (1.0 - x[2])); }},
    {.name = "atan2", .formula = [](Terms x, Numbers) { return angle(x[0], x[1]); }},

    {.name = "relu", .formula = [](Terms x, Numbers) {
       return x[0].is_integer() ? x[0].node("Max", {x[0].number(0.0)}) : x[0].node("Relu"); }},
    {.name = "leaky_relu", .formula = [](Terms x, Numbers n) { return x[0].node("LeakyRelu", {}, {{"alpha", n[0]}}); }},
    {.name = "prelu", .type = "PRelu"},
    {.name = "tanh", .type = "Tanh"},
    {.name = "sigmoid", .type = "Sigmoid"},
    {.name = "silu", .formula = [](Terms x, Numbers) { return x[0] * x[0].node("Sigmoid"); }},
    {.name = "relu6", .formula = [](Terms x, Numbers) { return clip(x[0], 0.0, 6.0); }},
    {.name = "hardtanh", .formula = [](Terms x, Numbers n) { return clip(x[0], n[0], n[1]); }},
    {.name = "elu", .formula = [](Terms x, Numbers n) { return x[0].node("Elu", {}, {{"alpha", n[0]}}); }},
    {.name = "selu", .type = "Selu"},
    // Engines know these forms of gelu.
    {.name = "gelu", .formula = [](Terms x, Numbers) {
       return x[0] * ((x[0] / std::numbers::sqrt2).node("Erf") + 1.0) * 0.5; }},
    {.name = "gelu_tanh", .formula = [](Terms x, Numbers) {
       const OnnxTerm cube = x[0].node("Pow", {x[0].number(3.0)});
       const OnnxTerm bend = ((x[0] + cube * 0.044715) * (std::numbers::sqrt2 * std::numbers::inv_sqrtpi)).node("Tanh");
       return x[0] * (bend + 1.0) * 0.5; }},
    // Beyond the default threshold of 20, x differs by less than is rounded away.
    {.name = "softplus", .formula = [](Terms x, Numbers n) {
       const OnnxTerm steep = scaled(x[0], n[0]), y = scaled(steep.node("Softplus"), 1.0 / n[0]);
       return n[1] < 20.0 ? where(steep > n[1], x[0], y) : y; }},
    {.name = "logsigmoid", .formula = [](Terms x, Numbers) { return -(-x[0]).node("Softplus"); }},
    {.name = "softsign", .type = "Softsign"},
    {.name = "mish", .formula = [](Terms x, Numbers) { return x[0] * x[0].node("Softplus").node("Tanh"); }},
    {.name = "hardsigmoid", .formula = [](Terms x, Numbers) {
       return x[0].node("HardSigmoid", {}, {{"alpha", 1.0 / 6.0}, {"beta", 0.5}}); }},
    {.name = "hardswish", .type = "HardSwish"},
    {.name = "glu", .formula = [](Terms x, Numbers) { return x[0] * x[1].node("Sigmoid"); }},
    {.name = "snake", .formula = [](Terms x, Numbers) {
       const OnnxTerm s = (x[0] * x[1]).node("Sin");
       return x[0] + s * s / x[1]; }},
};
// clang-format on

}  // namespace formulas

/// The formula of an operator. An operator without one does not compile.
consteval const OnnxFormula& onnx_formula(std::string_view name) {
  for (const OnnxFormula& formula : formulas::kOnnxFormulas) {
    if (formula.name == name) return formula;
  }
  throw "the table must have a row for every operator that is not a gradient's";
}

struct OnnxSignature {
  bool is_predicate;  // the result is bool
  bool scalar_first;  // the attribute's number comes before the operand
};
/// Adds the nodes of a call.
OnnxValue translate(OnnxCall& call, const OnnxFormula& formula, std::span<const double> numbers,
                    const OnnxSignature& signature);

}  // namespace adjoint::elementwise

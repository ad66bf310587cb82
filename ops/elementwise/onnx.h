// Elementwise operators in ONNX: the terms of which functors make their translation. Internal to ops.
#pragma once

#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/functor.h>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
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

/// The operands of a call as terms, in the dtype in which ONNX computes.
class OnnxOperands {
 public:
  OnnxOperands(OnnxCall& call, functor::OnnxTypes types);
  std::span<const OnnxTerm> terms() const { return terms_; }
  /// `result` in the dtype of the call's result.
  OnnxValue cast_back(const OnnxTerm& result, bool is_predicate) const;

 private:
  std::vector<OnnxTerm> terms_;
  DType given_;  // the operands' own
};

/// A node of the operands and then the numbers, or in reverse.
OnnxTerm onnx_node(const char* type, std::span<const OnnxTerm> x, std::span<const double> numbers, bool reversed);

inline std::vector<double> numbers_of(const NoAttr&) { return {}; }
inline std::vector<double> numbers_of(const ScalarAttr& attr) { return {attr.value}; }
inline std::vector<double> numbers_of(const PairAttr& attr) { return {attr.first, attr.second}; }
inline std::vector<double> numbers_of(const NumbersAttr& attr) { return {attr.nan, attr.posinf, attr.neginf}; }

/// The result of functor F, which must have kOnnx or onnx().
template <template <class> class F>
OnnxTerm onnx_term(std::span<const OnnxTerm> x, const typename F<float>::Attr& attr) {
  if constexpr (requires { F<float>::kOnnx; }) {
    return onnx_node(F<float>::kOnnx, x, numbers_of(attr), F<float>::kScalarFirst);
  } else {
    const auto f = functor::make<F<double>>(attr);
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return f.onnx(x[i]...); }
    (std::make_index_sequence<F<float>::kArity>{});
  }
}

}  // namespace adjoint::elementwise

// You are at stop 3 of 7 of the README's reading path, an elementwise operator: these are the formulas of arithmetic.
// define.h comes next.
//
// Arithmetic, one element at a time.
#pragma once

#include <adjoint/ops/elementwise/functor.h>

#include <type_traits>

namespace adjoint::functor {

template <class T>
struct Add : Signature<2, kNumbers> {
  static constexpr const char* kName = "add";
  static constexpr const char* kOnnx = "Add";
  ADJOINT_HD T operator()(T a, T b) const { return add(a, b); }
};
template <class T>
struct Sub : Signature<2, kNumbers> {
  static constexpr const char* kName = "sub";
  static constexpr const char* kOnnx = "Sub";
  ADJOINT_HD T operator()(T a, T b) const { return sub(a, b); }
};
template <class T>
struct Mul : Signature<2, kNumbers> {
  static constexpr const char* kName = "mul";
  static constexpr const char* kOnnx = "Mul";
  ADJOINT_HD T operator()(T a, T b) const { return mul(a, b); }
};
template <class T>
struct Div : Signature<2, kFloating> {
  static constexpr const char* kName = "div";
  static constexpr const char* kOnnx = "Div";
  ADJOINT_HD T operator()(T a, T b) const { return a / b; }
};
/// (g, a, b) -> the gradient of a / b in b.
template <class T>
struct DivGradDivisor : Signature<3, kFloating> {
  static constexpr const char* kName = "div";
  template <class V>
  ADJOINT_HD V operator()(const V& g, const V& a, const V& b) const {
    return -(g * (a / b) / b);
  }
};
template <class T>
struct Neg : Signature<1, kNumbers> {
  static constexpr const char* kName = "neg";
  static constexpr const char* kOnnx = "Neg";
  // Not 0 - x, which is +0 for x = +0.
  ADJOINT_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return sub(T{0}, x);
    } else {
      return -x;
    }
  }
};
/// a + value * b: the in-place update.
template <class T>
struct AddScaled : Signature<2, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "add_";
  T value;
  explicit AddScaled(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T a, T b) const { return add(a, mul(value, b)); }
  template <class V>
  V onnx(const V& a, const V& b) const {
    return a + scaled(b, value);
  }
};

/// a + value * b * c, and a + value * b / c: in-place updates.
template <class T>
struct AddcMul : Signature<3, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "addcmul_";
  T value;
  explicit AddcMul(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T a, T b, T c) const { return add(a, mul(mul(value, b), c)); }
  template <class V>
  V onnx(const V& a, const V& b, const V& c) const {
    return a + scaled(b, value) * c;
  }
};
template <class T>
struct AddcDiv : Signature<3, kFloating, ScalarAttr> {
  static constexpr const char* kName = "addcdiv_";
  T value;
  explicit AddcDiv(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T a, T b, T c) const { return a + value * b / c; }
  template <class V>
  V onnx(const V& a, const V& b, const V& c) const {
    return a + scaled(b, value) / c;
  }
};

template <class T>
struct AddScalar : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "add";
  static constexpr const char* kOnnx = "Add";
  static constexpr double kNeutral = 0.0;
  T value;
  explicit AddScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return add(x, value); }
};
template <class T>
struct SubScalar : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "sub";
  static constexpr const char* kOnnx = "Sub";
  static constexpr double kNeutral = 0.0;
  T value;
  explicit SubScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return sub(x, value); }
};
template <class T>
struct ScalarSub : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "sub";
  static constexpr const char* kOnnx = "Sub";
  static constexpr bool kScalarFirst = true;
  T value;
  explicit ScalarSub(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return sub(value, x); }
};
template <class T>
struct MulScalar : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "mul";
  static constexpr const char* kOnnx = "Mul";
  static constexpr double kNeutral = 1.0;
  T value;
  explicit MulScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return mul(x, value); }
};
template <class T>
struct DivScalar : Signature<1, kFloating, ScalarAttr> {
  static constexpr const char* kName = "div";
  static constexpr const char* kOnnx = "Div";
  static constexpr double kNeutral = 1.0;
  T value;
  explicit DivScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return x / value; }
};
template <class T>
struct ScalarDiv : Signature<1, kFloating, ScalarAttr> {
  static constexpr const char* kName = "div";
  static constexpr const char* kOnnx = "Div";
  static constexpr bool kScalarFirst = true;
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  T value;
  explicit ScalarDiv(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return value / x; }
};

}  // namespace adjoint::functor

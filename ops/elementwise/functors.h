// Arithmetic, mathematics and activations, one element at a time.
#pragma once

#include <adjoint/ops/elementwise/functor.h>

#include <cmath>
#include <type_traits>

namespace adjoint::functor {

// ---- Arithmetic.

template <class T>
struct Add : Signature<2, kNumbers> {
  static constexpr const char* kName = "add";
  ADJOINT_HD T operator()(T a, T b) const { return add(a, b); }
};
template <class T>
struct Sub : Signature<2, kNumbers> {
  static constexpr const char* kName = "sub";
  ADJOINT_HD T operator()(T a, T b) const { return sub(a, b); }
};
template <class T>
struct Mul : Signature<2, kNumbers> {
  static constexpr const char* kName = "mul";
  ADJOINT_HD T operator()(T a, T b) const { return mul(a, b); }
};
template <class T>
struct Div : Signature<2, kFloating> {
  static constexpr const char* kName = "div";
  ADJOINT_HD T operator()(T a, T b) const { return a / b; }
};
template <class T>
struct Neg : Signature<1, kNumbers> {
  static constexpr const char* kName = "neg";
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
};

template <class T>
struct AddScalar : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "add";
  T value;
  explicit AddScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return add(x, value); }
};
template <class T>
struct SubScalar : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "sub";
  T value;
  explicit SubScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return sub(x, value); }
};
template <class T>
struct ScalarSub : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "sub";
  T value;
  explicit ScalarSub(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return sub(value, x); }
};
template <class T>
struct MulScalar : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "mul";
  T value;
  explicit MulScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return mul(x, value); }
};
template <class T>
struct DivScalar : Signature<1, kFloating, ScalarAttr> {
  static constexpr const char* kName = "div";
  T value;
  explicit DivScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return x / value; }
};
template <class T>
struct ScalarDiv : Signature<1, kFloating, ScalarAttr> {
  static constexpr const char* kName = "div";
  T value;
  explicit ScalarDiv(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return value / x; }
};

// ---- Mathematics.

template <class T>
struct Exp : Signature<1, kFloating> {
  static constexpr const char* kName = "exp";
  ADJOINT_HD T operator()(T x) const { return scalar::exp(x); }
};
template <class T>
struct Log : Signature<1, kFloating> {
  static constexpr const char* kName = "log";
  ADJOINT_HD T operator()(T x) const { return std::log(x); }
};
template <class T>
struct Sqrt : Signature<1, kFloating> {
  static constexpr const char* kName = "sqrt";
  ADJOINT_HD T operator()(T x) const { return std::sqrt(x); }
};
template <class T>
struct Sin : Signature<1, kFloating> {
  static constexpr const char* kName = "sin";
  ADJOINT_HD T operator()(T x) const { return std::sin(x); }
};
template <class T>
struct Cos : Signature<1, kFloating> {
  static constexpr const char* kName = "cos";
  ADJOINT_HD T operator()(T x) const { return std::cos(x); }
};
template <class T>
struct Abs : Signature<1, kNumbers> {
  static constexpr const char* kName = "abs";
  ADJOINT_HD T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else if constexpr (std::is_integral_v<T>) {
      return x < 0 ? sub(T{0}, x) : x;
    } else {
      return std::fabs(x);
    }
  }
};
template <class T>
struct Sign : Signature<1, kNumbers> {
  static constexpr const char* kName = "sign";
  ADJOINT_HD T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>) {
      return x > T{0} ? T{1} : T{0};
    } else {
      return static_cast<T>(static_cast<int>(x > T{0}) - static_cast<int>(x < T{0}));
    }
  }
};
template <class T>
struct Square : Signature<1, kNumbers> {
  static constexpr const char* kName = "square";
  ADJOINT_HD T operator()(T x) const { return mul(x, x); }
};
template <class T>
struct PowScalar : Signature<1, kFloating, ScalarAttr> {
  static constexpr const char* kName = "pow";
  T exponent;
  explicit PowScalar(const ScalarAttr& attr) : exponent(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return exponent == T{2} ? x * x : std::pow(x, exponent); }
};
template <class T>
struct Pow : Signature<2, kFloating> {
  static constexpr const char* kName = "pow";
  ADJOINT_HD T operator()(T x, T exponent) const { return std::pow(x, exponent); }
};
template <class T>
struct Minimum : Signature<2, kEverything> {
  static constexpr const char* kName = "minimum";
  ADJOINT_HD T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};
template <class T>
struct Maximum : Signature<2, kEverything> {
  static constexpr const char* kName = "maximum";
  ADJOINT_HD T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};
template <class T>
struct Clamp : Signature<1, kNumbers, BoundsAttr> {
  static constexpr const char* kName = "clamp";
  T low, high;
  explicit Clamp(const BoundsAttr& attr) : low(bound<T>(attr.low)), high(bound<T>(attr.high)) {}
  ADJOINT_HD T operator()(T x) const {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};

// ---- Activations.

template <class T>
struct Relu : Signature<1, kNumbers> {
  static constexpr const char* kName = "relu";
  ADJOINT_HD T operator()(T x) const { return x <= T{0} ? T{0} : x; }  // NaN stays
};
template <class T>
struct LeakyRelu : Signature<1, kFloating, ScalarAttr> {
  static constexpr const char* kName = "leaky_relu";
  T slope;
  explicit LeakyRelu(const ScalarAttr& attr) : slope(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return select(x > T{0}, x, x * slope); }
};
template <class T>
struct Prelu : Signature<2, kFloating> {
  static constexpr const char* kName = "prelu";
  ADJOINT_HD T operator()(T x, T weight) const { return select(x > T{0}, x, x * weight); }
};
template <class T>
struct Sigmoid : Signature<1, kFloating> {
  static constexpr const char* kName = "sigmoid";
  ADJOINT_HD T operator()(T x) const { return T{1} / (T{1} + scalar::exp(-x)); }
};
template <class T>
struct Tanh : Signature<1, kFloating> {
  static constexpr const char* kName = "tanh";
  ADJOINT_HD T operator()(T x) const { return scalar::tanh(x); }
};
template <class T>
struct Silu : Signature<1, kFloating> {
  static constexpr const char* kName = "silu";
  ADJOINT_HD T operator()(T x) const { return x / (T{1} + scalar::exp(-x)); }
};
template <class T>
struct Softplus : Signature<1, kFloating> {
  static constexpr const char* kName = "softplus";
  ADJOINT_HD T operator()(T x) const { return (x < T{0} ? T{0} : x) + std::log1p(std::exp(-std::fabs(x))); }
};

}  // namespace adjoint::functor

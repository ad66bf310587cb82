// Mathematical functions, one element at a time.
#pragma once

#include <adjoint/ops/elementwise/functor.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

namespace adjoint::functor {

// ---- Functions of one operand, with their derivatives.

template <class T>
struct Exp : Unary<NoAttr, Kept::kResult> {
  static constexpr const char* kName = "exp";
  static constexpr const char* kOnnx = "Exp";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return exp(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& y) const {
    return g * y;
  }
};
template <class T>
struct Expm1 : Unary<NoAttr, Kept::kResult> {
  static constexpr const char* kName = "expm1";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return expm1(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& y) const {
    return g * (y + 1);
  }
  template <class V>
  V onnx(const V& x) const {
    return x.node("Exp") - 1.0;
  }
};
template <class T>
struct Log : Unary<> {
  static constexpr const char* kName = "log";
  static constexpr const char* kOnnx = "Log";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return log(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g / x;
  }
};
template <class T>
struct Log1p : Unary<> {
  static constexpr const char* kName = "log1p";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return log1p(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g / (x + 1);
  }
  template <class V>
  V onnx(const V& x) const {
    return (x + 1.0).node("Log");
  }
};
template <class T>
struct Log2 : Unary<> {
  static constexpr const char* kName = "log2";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return log2(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g / (x * std::numbers::ln2_v<T>);
  }
  template <class V>
  V onnx(const V& x) const {
    return x.node("Log") * std::numbers::log2e;
  }
};
template <class T>
struct Sqrt : Unary<NoAttr, Kept::kResult> {
  static constexpr const char* kName = "sqrt";
  static constexpr const char* kOnnx = "Sqrt";
  ADJOINT_HD T operator()(T x) const { return sqrt(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& y) const {
    return g / 2 / y;
  }
};
template <class T>
struct Rsqrt : Unary<NoAttr, Kept::kResult> {
  static constexpr const char* kName = "rsqrt";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return T{1} / sqrt(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& y) const {
    return g * y * y * (y / -2);
  }
  template <class V>
  V onnx(const V& x) const {
    return x.node("Sqrt").node("Reciprocal");
  }
};
template <class T>
struct Reciprocal : Unary<NoAttr, Kept::kResult> {
  static constexpr const char* kName = "reciprocal";
  static constexpr const char* kOnnx = "Reciprocal";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return T{1} / x; }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& y) const {
    return -(g * y * y);
  }
};
template <class T>
struct Square : Unary<NoAttr, Kept::kOperand, false, kNumbers> {
  static constexpr const char* kName = "square";
  ADJOINT_HD T operator()(T x) const { return mul(x, x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g * x * 2;
  }
  template <class V>
  V onnx(const V& x) const {
    return x * x;
  }
};
template <class T>
struct Sin : Unary<> {
  static constexpr const char* kName = "sin";
  static constexpr const char* kOnnx = "Sin";
  ADJOINT_HD T operator()(T x) const { return sin(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g * cos(x);
  }
};
template <class T>
struct Cos : Unary<> {
  static constexpr const char* kName = "cos";
  ADJOINT_HD T operator()(T x) const { return cos(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return -(g * sin(x));
  }
  // ONNX Runtime has the Sin of float64, but not the Cos.
  template <class V>
  V onnx(const V& x) const {
    return x.dtype == kFloat64 ? (x + std::numbers::pi / 2.0).node("Sin") : x.node("Cos");
  }
};
template <class T>
struct Tan : Unary<NoAttr, Kept::kResult> {
  static constexpr const char* kName = "tan";
  static constexpr const char* kOnnx = "Tan";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return tan(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& y) const {
    return g * (y * y + 1);
  }
};
template <class T>
struct Asin : Unary<> {
  static constexpr const char* kName = "asin";
  static constexpr const char* kOnnx = "Asin";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return asin(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g / sqrt((1 - x) * (x + 1));
  }
};
template <class T>
struct Acos : Unary<> {
  static constexpr const char* kName = "acos";
  static constexpr const char* kOnnx = "Acos";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return acos(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return -(g / sqrt((1 - x) * (x + 1)));
  }
};
template <class T>
struct Atan : Unary<> {
  static constexpr const char* kName = "atan";
  static constexpr const char* kOnnx = "Atan";
  ADJOINT_HD T operator()(T x) const { return atan(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g / (x * x + 1);
  }
};
template <class T>
struct Sinh : Unary<> {
  static constexpr const char* kName = "sinh";
  static constexpr const char* kOnnx = "Sinh";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return sinh(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g * cosh(x);
  }
};
template <class T>
struct Cosh : Unary<> {
  static constexpr const char* kName = "cosh";
  static constexpr const char* kOnnx = "Cosh";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x) const { return cosh(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g * sinh(x);
  }
};
template <class T>
struct Erf : Unary<> {
  static constexpr const char* kName = "erf";
  static constexpr const char* kOnnx = "Erf";
  ADJOINT_HD T operator()(T x) const { return erf(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    const V near = clamp(x, -50, 50);  // beyond, the derivative is 0 in any order
    return g * (exp(-(near * near)) * (2 * std::numbers::inv_sqrtpi_v<T>));
  }
};
template <class T>
struct Abs : Unary<NoAttr, Kept::kOperand, true, kNumbers> {
  static constexpr const char* kName = "abs";
  static constexpr const char* kOnnx = "Abs";
  ADJOINT_HD T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else if constexpr (std::is_integral_v<T>) {
      return x < 0 ? sub(T{0}, x) : x;
    } else {
      return abs(x);
    }
  }
  ADJOINT_HD T gradient(T g, T x) const { return x > T{0} ? g : x < T{0} ? -g : T{0}; }
};
template <class T>
struct Clamp : Unary<PairAttr, Kept::kOperand, true, kNumbers> {
  static constexpr const char* kName = "clamp";
  T low, high;
  explicit Clamp(const PairAttr& attr) : low(bound<T>(attr.first)), high(bound<T>(attr.second)) {}
  ADJOINT_HD T operator()(T x) const {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  ADJOINT_HD T gradient(T g, T x) const { return x >= low && x <= high ? g : T{0}; }
  template <class V>
  V onnx(const V& x) const {
    return clip(x, low, high);
  }
};

template <class T>
struct NanToNum : Unary<NumbersAttr, Kept::kOperand, true> {
  static constexpr const char* kName = "nan_to_num";
  T nan, posinf, neginf;
  explicit NanToNum(const NumbersAttr& attr)
      : nan(static_cast<T>(attr.nan)), posinf(static_cast<T>(attr.posinf)), neginf(static_cast<T>(attr.neginf)) {}
  ADJOINT_HD T operator()(T x) const { return is_finite(x) ? x : x != x ? nan : x > T{0} ? posinf : neginf; }
  ADJOINT_HD T gradient(T g, T x) const { return is_finite(x) ? g : T{0}; }
  template <class V>
  V onnx(const V& x) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const V y = where(x.node("IsNaN"), x.number(nan), x);
    return where(y == infinity, y.number(posinf), where(y == -infinity, y.number(neginf), y));
  }
};

// ---- Functions whose derivative is 0 almost everywhere.

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
  // ONNX's Sign of NaN is NaN.
  template <class V>
  V onnx(const V& x) const {
    const V sign = x.node("Sign");
    return x.is_integer() ? sign : where(x.node("IsNaN"), x.number(0.0), sign);
  }
};
template <class T>
struct Floor : Signature<1, kNumbers> {
  static constexpr const char* kName = "floor";
  ADJOINT_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return std::floor(x);
    }
  }
  template <class V>
  V onnx(const V& x) const {
    return x.is_integer() ? x : x.node("Floor");
  }
};
template <class T>
struct Ceil : Signature<1, kNumbers> {
  static constexpr const char* kName = "ceil";
  ADJOINT_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return std::ceil(x);
    }
  }
  template <class V>
  V onnx(const V& x) const {
    return x.is_integer() ? x : x.node("Ceil");
  }
};
template <class T>
struct Trunc : Signature<1, kNumbers> {
  static constexpr const char* kName = "trunc";
  ADJOINT_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return std::trunc(x);
    }
  }
  template <class V>
  V onnx(const V& x) const {
    return x.is_integer() ? x : abs(x).node("Floor") * x.node("Sign");
  }
};
template <class T>
struct Round : Signature<1, kNumbers> {
  static constexpr const char* kName = "round";
  ADJOINT_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return std::rint(x);  // rounds to nearest, ties to even: the mode in which threads start
    }
  }
  template <class V>
  V onnx(const V& x) const {
    return x.is_integer() ? x : x.node("Round");
  }
};

// ---- Functions of several operands.

/// Integers wrap around, and a negative power is truncated towards 0; for a base of 0 it gives 0.
template <class T>
ADJOINT_HD T power(T base, T exponent) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (exponent < 0) return base == 1 ? T{1} : base == T{-1} ? (exponent % 2 == 0 ? T{1} : T{-1}) : T{0};
    }
    T result = 1;
    for (; exponent > 0; exponent = static_cast<T>(exponent / 2), base = mul(base, base)) {
      if (exponent % 2 != 0) result = mul(result, base);
    }
    return result;
  } else {
    return std::pow(base, exponent);
  }
}
template <class T>
struct PowScalar : Signature<1, kNumbers, ScalarAttr> {
  static constexpr const char* kName = "pow";
  static constexpr const char* kOnnx = "Pow";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  T exponent;
  explicit PowScalar(const ScalarAttr& attr) : exponent(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return exponent == T{2} ? mul(x, x) : power(x, exponent); }
};
template <class T>
struct Pow : Signature<2, kNumbers> {
  static constexpr const char* kName = "pow";
  static constexpr const char* kOnnx = "Pow";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  ADJOINT_HD T operator()(T x, T exponent) const { return power(x, exponent); }
};
template <class T>
struct Atan2 : Signature<2, kFloating> {
  static constexpr const char* kName = "atan2";
  ADJOINT_HD T operator()(T y, T x) const { return std::atan2(y, x); }
  template <class V>
  V onnx(const V& y, const V& x) const {
    return angle(y, x);
  }
};
/// a - trunc(a / b) * b, exactly: the sign is a's. Integers give 0 if b is 0.
template <class T>
struct Fmod : Signature<2, kNumbers> {
  static constexpr const char* kName = "fmod";
  ADJOINT_HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T{0} || (std::is_signed_v<T> && b == static_cast<T>(-1)))
        return T{0};  // the least value divided by -1 overflows
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
  template <class V>
  V onnx(const V& a, const V& b) const {
    return rest_of_trunc(a, b);
  }
};
/// a - floor(a / b) * b: the sign is b's.
template <class T>
struct Remainder : Signature<2, kNumbers> {
  static constexpr const char* kName = "remainder";
  ADJOINT_HD T operator()(T a, T b) const {
    const T rest = Fmod<T>{}(a, b);
    if constexpr (std::is_unsigned_v<T>) {
      return rest;
    } else {
      return rest != T{0} && (rest < T{0}) != (b < T{0}) ? add(rest, b) : rest;
    }
  }
  template <class V>
  V onnx(const V& a, const V& b) const {
    return rest_of_floor(a, b);
  }
};
template <class T>
struct Lerp : Signature<3, kFloating> {
  static constexpr const char* kName = "lerp";
  // Interpolates from the nearer end, so that both ends are exact.
  ADJOINT_HD T operator()(T start, T end, T weight) const {
    return abs(weight) < T(0.5) ? start + weight * (end - start) : end - (end - start) * (T{1} - weight);
  }
  template <class V>
  V onnx(const V& start, const V& end, const V& weight) const {
    const V way = end - start;
    return where(abs(weight) < 0.5, start + weight * way, end - way * (1.0 - weight));
  }
};
template <class T>
struct Minimum : Signature<2, kEverything> {
  static constexpr const char* kName = "minimum";
  static constexpr const char* kOnnx = "Min";
  ADJOINT_HD T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};
template <class T>
struct Maximum : Signature<2, kEverything> {
  static constexpr const char* kName = "maximum";
  static constexpr const char* kOnnx = "Max";
  ADJOINT_HD T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};
/// The gradient of the first operand of maximum(a, b), which is also that of the second of minimum(a, b) and so on.
template <class T>
struct MaximumGrad : Signature<3, kFloating> {
  static constexpr const char* kName = "maximum_grad";
  ADJOINT_HD T operator()(T g, T a, T b) const { return a < b ? T{0} : a == b ? g / T{2} : g; }
};

}  // namespace adjoint::functor

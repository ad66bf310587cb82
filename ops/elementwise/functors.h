// What each elementwise operator does to one element, for host and device alike, and which dtypes it takes.
//
// A functor is a template over the type it computes in (core/convert.h's compute_t of the elements' dtype). Its base
// says how many operands it has, of which dtypes, and which attributes it is made from.
#pragma once

#include <adjoint/core/convert.h>
#include <adjoint/core/dtype.h>
#include <adjoint/ops/elementwise/scalar_math.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace adjoint {

struct NoAttr;  // op.h

struct ScalarAttr {
  double value;
};
struct BoundsAttr {
  double low;
  double high;
};

}  // namespace adjoint

namespace adjoint::functor {

enum class Accepts : std::uint8_t { kFloating, kNumbers, kEverything };  // kNumbers: all but bool

/// kPredicate: the result is bool. kMask: operand 0 is bool, whatever the others are, which are only moved: T is their
/// storage type.
template <int N, Accepts kTypes, class A = NoAttr, bool kIsPredicate = false, bool kHasMask = false>
struct Signature {
  using Attr = A;
  static constexpr int kArity = N;
  static constexpr Accepts kAccepts = kTypes;
  static constexpr bool kPredicate = kIsPredicate;
  static constexpr bool kMask = kHasMask;
};

using enum Accepts;
using scalar::select;

/// The type that functor F works in for elements of type T.
template <template <class> class F, class T>
using compute_of = std::conditional_t<F<float>::kMask, T, compute_t<T>>;

/// A functor from its operator's attributes.
template <class F>
F make(const typename F::Attr& attr) {
  if constexpr (std::is_same_v<typename F::Attr, NoAttr>) {
    return F{};
  } else {
    return F(attr);
  }
}

// Integers wrap around: signed overflow is undefined, so they are computed unsigned.
template <class T>
ADJOINT_HD constexpr T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  } else {
    return a + b;
  }
}
template <class T>
ADJOINT_HD constexpr T sub(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) - static_cast<std::make_unsigned_t<T>>(b));
  } else {
    return a - b;
  }
}
template <class T>
ADJOINT_HD constexpr T mul(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
  } else {
    return a * b;
  }
}

/// A bound of clamp; infinities mean no bound, whatever the dtype.
template <class T>
T bound(double value) {
  if constexpr (std::is_integral_v<T>) {
    if (value == std::numeric_limits<double>::infinity()) return std::numeric_limits<T>::max();
    if (value == -std::numeric_limits<double>::infinity()) return std::numeric_limits<T>::min();
  }
  return static_cast<T>(value);
}

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

// ---- Gradients in one pass: g is the result's gradient, x an operand, y the result. Those that are a multiple of g
// with a factor constant almost everywhere are their own gradients in g, and have none in the rest.

template <class T>
struct AbsGrad : Signature<2, kFloating> {
  static constexpr const char* kName = "abs_grad";
  ADJOINT_HD T operator()(T g, T x) const { return x > T{0} ? g : x < T{0} ? -g : T{0}; }
};
/// 0 rather than 0 * g, so that an infinite gradient stops here too.
template <class T>
struct ReluGrad : Signature<2, kFloating> {
  static constexpr const char* kName = "relu_grad";
  ADJOINT_HD T operator()(T g, T y) const { return y <= T{0} ? T{0} : g; }
};
template <class T>
struct LeakyReluGrad : Signature<2, kFloating, ScalarAttr> {
  static constexpr const char* kName = "leaky_relu_grad";
  T slope;
  explicit LeakyReluGrad(const ScalarAttr& attr) : slope(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T g, T x) const { return select(x > T{0}, g, g * slope); }
};
template <class T>
struct ClampGrad : Signature<2, kFloating, BoundsAttr> {
  static constexpr const char* kName = "clamp_grad";
  T low, high;
  explicit ClampGrad(const BoundsAttr& attr) : low(bound<T>(attr.low)), high(bound<T>(attr.high)) {}
  ADJOINT_HD T operator()(T g, T x) const { return x >= low && x <= high ? g : T{0}; }
};
template <class T>
struct PreluGrad : Signature<3, kFloating> {
  static constexpr const char* kName = "prelu_grad";
  ADJOINT_HD T operator()(T g, T x, T weight) const { return select(x > T{0}, g, g * weight); }
};
/// g where prelu multiplies by its weight.
template <class T>
struct PreluGate : Signature<2, kFloating> {
  static constexpr const char* kName = "prelu_gate";
  ADJOINT_HD T operator()(T g, T x) const { return x > T{0} ? T{0} : g; }
};
/// Of the first operand of maximum(a, b), which is also the second's of minimum(a, b) and so on.
template <class T>
struct MaximumGrad : Signature<3, kFloating> {
  static constexpr const char* kName = "maximum_grad";
  ADJOINT_HD T operator()(T g, T a, T b) const { return a < b ? T{0} : a == b ? g / T{2} : g; }
};
template <class T>
struct SigmoidGrad : Signature<2, kFloating> {
  static constexpr const char* kName = "sigmoid_grad";
  ADJOINT_HD T operator()(T g, T y) const { return g * (T{1} - y) * y; }
};
template <class T>
struct TanhGrad : Signature<2, kFloating> {
  static constexpr const char* kName = "tanh_grad";
  ADJOINT_HD T operator()(T g, T y) const { return g * (T{1} - y * y); }
};
template <class T>
struct SiluGrad : Signature<2, kFloating> {
  static constexpr const char* kName = "silu_grad";
  ADJOINT_HD T operator()(T g, T x) const {
    const T s = T{1} / (T{1} + scalar::exp(-x));
    return g * s * (T{1} + x * (T{1} - s));
  }
};

// ---- Comparison and selection.

template <class T>
struct Equal : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "eq";
  ADJOINT_HD bool operator()(T a, T b) const { return a == b; }
};
template <class T>
struct NotEqual : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "ne";
  ADJOINT_HD bool operator()(T a, T b) const { return a != b; }
};
template <class T>
struct Less : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "lt";
  ADJOINT_HD bool operator()(T a, T b) const { return a < b; }
};
template <class T>
struct LessEqual : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "le";
  ADJOINT_HD bool operator()(T a, T b) const { return a <= b; }
};

/// Op is one of the above, or its mirror image, with a scalar on the right.
template <class T, template <class> class Op, bool kMirrored>
struct CompareScalar : Signature<1, kEverything, ScalarAttr, true> {
  static constexpr const char* kName = Op<T>::kName;
  T value;
  explicit CompareScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD bool operator()(T x) const { return kMirrored ? Op<T>{}(value, x) : Op<T>{}(x, value); }
};
template <class T>
struct EqualScalar : CompareScalar<T, Equal, false> {
  using CompareScalar<T, Equal, false>::CompareScalar;
};
template <class T>
struct NotEqualScalar : CompareScalar<T, NotEqual, false> {
  using CompareScalar<T, NotEqual, false>::CompareScalar;
};
template <class T>
struct LessScalar : CompareScalar<T, Less, false> {
  using CompareScalar<T, Less, false>::CompareScalar;
};
template <class T>
struct LessEqualScalar : CompareScalar<T, LessEqual, false> {
  using CompareScalar<T, LessEqual, false>::CompareScalar;
};
template <class T>
struct GreaterScalar : CompareScalar<T, Less, true> {
  static constexpr const char* kName = "gt";
  using CompareScalar<T, Less, true>::CompareScalar;
};
template <class T>
struct GreaterEqualScalar : CompareScalar<T, LessEqual, true> {
  static constexpr const char* kName = "ge";
  using CompareScalar<T, LessEqual, true>::CompareScalar;
};

template <class T>
struct Where : Signature<3, kEverything, NoAttr, false, true> {
  static constexpr const char* kName = "where";
  ADJOINT_HD T operator()(bool condition, T a, T b) const { return select(condition, a, b); }
};

}  // namespace adjoint::functor

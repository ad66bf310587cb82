// You are at stop 3 of 7 of the README's reading path, an elementwise operator: this is the base of every formula.
// arithmetic_functors.h comes next.
//
// The base of every elementwise functor. A functor defines an operator on one element, for host and device alike, and
// the dtypes that it accepts.
//
// A functor is a template over the type in which it computes (core/tensor/convert.h's compute_t of the elements'
// dtype). Its base defines the number and dtypes of its operands, and the attributes that construct it.
#pragma once

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/elementwise/scalar_math.h>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace adjoint {

struct NoAttr;  // op.h

struct ScalarAttr {
  double value;
};
struct PairAttr {
  double first;
  double second;
};
struct NumbersAttr {
  double nan, posinf, neginf;
};

}  // namespace adjoint

namespace adjoint::functor {

enum class Accepts : std::uint8_t { kFloating, kNumbers, kEverything };  // kNumbers: all but bool

/// The dtypes in which ONNX and ONNX Runtime compute an operator. kNumbers: uint8 and bool become int32 before, and the
/// result becomes uint8 or bool again. kTruth: all operands become bool.
enum class OnnxTypes : std::uint8_t { kNumbers, kTruth, kAll };

/// kPredicate: the result is bool. kMask: operand 0 is bool, the others may have any dtype. They are only moved, and T
/// is their storage type.
///
/// A functor states its operator's translation to ONNX (onnx.h): `kOnnx` names a node whose inputs are the operands and
/// then the attributes' numbers, or the number first with kScalarFirst. Otherwise a member adds several nodes,
///
///   template <class V> V onnx(const V& operand, ...) const;
///
/// for which the functor computes in double. An attribute that equals `kNeutral`, if there is one, adds no node.
template <int N, Accepts kTypes, class A = NoAttr, bool kIsPredicate = false, bool kHasMask = false>
struct Signature {
  using Attr = A;
  static constexpr int kArity = N;
  static constexpr Accepts kAccepts = kTypes;
  static constexpr bool kPredicate = kIsPredicate;
  static constexpr bool kMask = kHasMask;
  // Functors have their own of these.
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kWidest;
  static constexpr OnnxTypes kOnnxTypes = OnnxTypes::kNumbers;
  static constexpr bool kScalarFirst = false;
};

using enum Accepts;

// A formula in these functions and + - * / works for numbers, and for tensors, whose functions have the same names.
using scalar::abs, scalar::acos, scalar::asin, scalar::atan, scalar::clamp, scalar::clamp_max, scalar::clamp_min,
    scalar::cos, scalar::cosh, scalar::erf, scalar::exp, scalar::expm1, scalar::log, scalar::log1p, scalar::log2,
    scalar::select, scalar::sigmoid, scalar::sin, scalar::sinh, scalar::sqrt, scalar::tan, scalar::tanh, scalar::where,
    scalar::zeros_like;

/// The value in which the derivative of a function of one operand is written.
enum class Kept : std::uint8_t { kOperand, kResult };

/// A differentiable function of one operand. Beside operator() it has
///
///   template <class V> V gradient(const V& g, const V& kept) const;
///
/// which returns the operand's gradient from the result's, as one formula for numbers and for tensors: kernels compute
/// it in one pass, and a recorded sweep computes it with operators, so that it differentiates again. kPiecewiseLinear:
/// the derivative is constant almost everywhere; the gradient is then its own derivative in g, has no derivative in
/// `kept`, and is one pass in any order.
template <class A = NoAttr, Kept kKeeps = Kept::kOperand, bool kIsPiecewiseLinear = false,
          Accepts kTypes = Accepts::kFloating>
struct Unary : Signature<1, kTypes, A> {
  static constexpr Kept kKept = kKeeps;
  static constexpr bool kPiecewiseLinear = kIsPiecewiseLinear;
};

/// (g, kept) -> F's gradient.
template <template <class> class F>
struct GradientOf {
  template <class T>
  struct Functor : Signature<2, Accepts::kFloating, typename F<T>::Attr> {
    static constexpr const char* kName = F<T>::kName;
    F<T> f;
    Functor() = default;
    explicit Functor(const typename F<T>::Attr& attr) : f(attr) {}
    ADJOINT_HD T operator()(T g, T kept) const { return f.gradient(g, kept); }
  };
};

/// The type in which functor F computes for elements of type T.
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

/// Returns true for every integer.
template <class T>
ADJOINT_HD constexpr bool is_finite(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x - x == T{0};
  } else {
    return true;
  }
}

/// A bound of clamp; infinities mean no bound in every dtype.
template <class T>
T bound(double value) {
  if constexpr (std::is_integral_v<T>) {
    if (value == std::numeric_limits<double>::infinity()) return std::numeric_limits<T>::max();
    if (value == -std::numeric_limits<double>::infinity()) return std::numeric_limits<T>::min();
  }
  return static_cast<T>(value);
}

}  // namespace adjoint::functor

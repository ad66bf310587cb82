// Comparisons, logic, tests and where, one element at a time.
#pragma once

#include <adjoint/ops/elementwise/functor.h>

#include <limits>

namespace adjoint::functor {

template <class T>
struct Equal : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "eq";
  static constexpr const char* kOnnx = "Equal";
  ADJOINT_HD bool operator()(T a, T b) const { return a == b; }
};
template <class T>
struct NotEqual : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "ne";
  ADJOINT_HD bool operator()(T a, T b) const { return a != b; }
  template <class V>
  V onnx(const V& a, const V& b) const {
    return (a == b).node("Not");
  }
};
template <class T>
struct Less : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "lt";
  static constexpr const char* kOnnx = "Less";
  ADJOINT_HD bool operator()(T a, T b) const { return a < b; }
};
template <class T>
struct LessEqual : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "le";
  static constexpr const char* kOnnx = "LessOrEqual";
  ADJOINT_HD bool operator()(T a, T b) const { return a <= b; }
};

/// Op is one of the functors above, or its mirror image, with a scalar on the right.
template <class T, template <class> class Op, bool kMirrored>
struct CompareScalar : Signature<1, kEverything, ScalarAttr, true> {
  static constexpr const char* kName = Op<T>::kName;
  T value;
  explicit CompareScalar(const ScalarAttr& attr) : value(static_cast<T>(attr.value)) {}
  ADJOINT_HD bool operator()(T x) const { return kMirrored ? Op<T>{}(value, x) : Op<T>{}(x, value); }
};
template <class T>
struct EqualScalar : CompareScalar<T, Equal, false> {
  static constexpr const char* kOnnx = "Equal";
  using CompareScalar<T, Equal, false>::CompareScalar;
};
template <class T>
struct NotEqualScalar : CompareScalar<T, NotEqual, false> {
  using CompareScalar<T, NotEqual, false>::CompareScalar;
  template <class V>
  V onnx(const V& x) const {
    return (x == this->value).node("Not");
  }
};
template <class T>
struct LessScalar : CompareScalar<T, Less, false> {
  static constexpr const char* kOnnx = "Less";
  using CompareScalar<T, Less, false>::CompareScalar;
};
template <class T>
struct LessEqualScalar : CompareScalar<T, LessEqual, false> {
  static constexpr const char* kOnnx = "LessOrEqual";
  using CompareScalar<T, LessEqual, false>::CompareScalar;
};
template <class T>
struct GreaterScalar : CompareScalar<T, Less, true> {
  static constexpr const char* kName = "gt";
  static constexpr const char* kOnnx = "Greater";
  using CompareScalar<T, Less, true>::CompareScalar;
};
template <class T>
struct GreaterEqualScalar : CompareScalar<T, LessEqual, true> {
  static constexpr const char* kName = "ge";
  static constexpr const char* kOnnx = "GreaterOrEqual";
  using CompareScalar<T, LessEqual, true>::CompareScalar;
};

template <class T>
struct LogicalAnd : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "logical_and";
  static constexpr const char* kOnnx = "And";
  static constexpr OnnxTypes kOnnxTypes = OnnxTypes::kTruth;
  ADJOINT_HD bool operator()(T a, T b) const { return a != T{} && b != T{}; }
};
template <class T>
struct LogicalOr : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "logical_or";
  static constexpr const char* kOnnx = "Or";
  static constexpr OnnxTypes kOnnxTypes = OnnxTypes::kTruth;
  ADJOINT_HD bool operator()(T a, T b) const { return a != T{} || b != T{}; }
};
template <class T>
struct LogicalXor : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "logical_xor";
  static constexpr const char* kOnnx = "Xor";
  static constexpr OnnxTypes kOnnxTypes = OnnxTypes::kTruth;
  ADJOINT_HD bool operator()(T a, T b) const { return (a != T{}) != (b != T{}); }
};
template <class T>
struct LogicalNot : Signature<1, kEverything, NoAttr, true> {
  static constexpr const char* kName = "logical_not";
  static constexpr const char* kOnnx = "Not";
  static constexpr OnnxTypes kOnnxTypes = OnnxTypes::kTruth;
  ADJOINT_HD bool operator()(T x) const { return x == T{}; }
};

template <class T>
struct IsNan : Signature<1, kEverything, NoAttr, true> {
  static constexpr const char* kName = "isnan";
  ADJOINT_HD bool operator()(T x) const { return x != x; }
  template <class V>
  V onnx(const V& x) const {
    return x.is_integer() ? x < x : x.node("IsNaN");
  }
};
template <class T>
struct IsInf : Signature<1, kEverything, NoAttr, true> {
  static constexpr const char* kName = "isinf";
  ADJOINT_HD bool operator()(T x) const { return x == x && !is_finite(x); }
  // IsInf does not accept float16.
  template <class V>
  V onnx(const V& x) const {
    return x.is_integer() ? x < x : abs(x) == std::numeric_limits<double>::infinity();
  }
};
template <class T>
struct IsFinite : Signature<1, kEverything, NoAttr, true> {
  static constexpr const char* kName = "isfinite";
  ADJOINT_HD bool operator()(T x) const { return is_finite(x); }
  template <class V>
  V onnx(const V& x) const {
    return x.is_integer() ? x == x : abs(x) < std::numeric_limits<double>::infinity();
  }
};

template <class T>
struct Where : Signature<3, kEverything, NoAttr, false, true> {
  static constexpr const char* kName = "where";
  static constexpr OnnxTypes kOnnxTypes = OnnxTypes::kAll;
  ADJOINT_HD T operator()(bool condition, T a, T b) const { return select(condition, a, b); }
  // ONNX Runtime selects all dtypes but bool.
  template <class V>
  V onnx(const V& condition, const V& a, const V& b) const {
    if (a.dtype != kBool) return where(condition, a, b);
    return condition.node("And", {a}).node("Or", {condition.node("Not").node("And", {b})});
  }
};

}  // namespace adjoint::functor

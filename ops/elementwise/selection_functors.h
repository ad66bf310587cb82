// Comparisons, logic, tests and where, one element at a time.
#pragma once

#include <adjoint/ops/elementwise/functor.h>

namespace adjoint::functor {

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
struct LogicalAnd : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "logical_and";
  ADJOINT_HD bool operator()(T a, T b) const { return a != T{} && b != T{}; }
};
template <class T>
struct LogicalOr : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "logical_or";
  ADJOINT_HD bool operator()(T a, T b) const { return a != T{} || b != T{}; }
};
template <class T>
struct LogicalXor : Signature<2, kEverything, NoAttr, true> {
  static constexpr const char* kName = "logical_xor";
  ADJOINT_HD bool operator()(T a, T b) const { return (a != T{}) != (b != T{}); }
};
template <class T>
struct LogicalNot : Signature<1, kEverything, NoAttr, true> {
  static constexpr const char* kName = "logical_not";
  ADJOINT_HD bool operator()(T x) const { return x == T{}; }
};

template <class T>
struct IsNan : Signature<1, kEverything, NoAttr, true> {
  static constexpr const char* kName = "isnan";
  ADJOINT_HD bool operator()(T x) const { return x != x; }
};
template <class T>
struct IsInf : Signature<1, kEverything, NoAttr, true> {
  static constexpr const char* kName = "isinf";
  ADJOINT_HD bool operator()(T x) const { return x == x && !is_finite(x); }
};
template <class T>
struct IsFinite : Signature<1, kEverything, NoAttr, true> {
  static constexpr const char* kName = "isfinite";
  ADJOINT_HD bool operator()(T x) const { return is_finite(x); }
};

template <class T>
struct Where : Signature<3, kEverything, NoAttr, false, true> {
  static constexpr const char* kName = "where";
  ADJOINT_HD T operator()(bool condition, T a, T b) const { return select(condition, a, b); }
};

}  // namespace adjoint::functor

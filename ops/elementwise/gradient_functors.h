// Gradients in one pass, one element at a time: g is the result's gradient, x an operand, y the result. Those that are
// a multiple of g with a factor constant almost everywhere are their own gradients in g, and have none in the rest.
#pragma once

#include <adjoint/ops/elementwise/functor.h>

namespace adjoint::functor {

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

}  // namespace adjoint::functor

// The losses' formulas for one pair of elements, for host and device alike.
//
// A functor is a template over the type in which it computes, made from the loss's parameter. value(x, y) is the loss
// of one element of the input and one of the target. gradient_x(g, x, y) and gradient_y(g, x, y) are g times its
// derivatives, as formulas for numbers and for tensors: kernels compute them in one pass, and a recorded sweep computes
// them with operators, so that they differentiate again.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/elementwise/scalar_math.h>

#include <type_traits>

namespace adjoint::loss {

// For tensors, lookup finds the functions of the same names.
using scalar::abs, scalar::clamp, scalar::clamp_min, scalar::exp, scalar::log, scalar::log1p, scalar::select,
    scalar::sigmoid, scalar::sqrt, scalar::where, scalar::zeros_like;

/// kLinear: the derivatives are constant almost everywhere, so each gradient is its own derivative in g and has no
/// derivative in x and y. kL1AtZero: a parameter of 0 means l1_loss; other parameters must be positive.
template <bool kIsLinear = false>
struct Pair {
  static constexpr bool kOdd = false;
  static constexpr bool kLinear = kIsLinear;
  static constexpr bool kL1AtZero = false;
  Pair() = default;
  explicit Pair(double /*parameter*/) {}
};

/// A loss of d = x - y: Self has of(d) and slope(g, d), which is odd in d, so gradient_y is gradient_x with x and y
/// swapped.
template <class T, class Self, bool kIsLinear = false>
struct Difference : Pair<kIsLinear> {
  static constexpr bool kOdd = true;
  using Pair<kIsLinear>::Pair;
  ADJOINT_HD T value(T x, T y) const { return self().of(x - y); }
  template <class V>
  ADJOINT_HD V gradient_x(const V& g, const V& x, const V& y) const {
    return self().slope(g, x - y);
  }

 private:
  ADJOINT_HD const Self& self() const { return static_cast<const Self&>(*this); }
};

template <class T>
struct Mse : Difference<T, Mse<T>> {
  static constexpr const char* kName = "mse_loss";
  using Difference<T, Mse>::Difference;
  ADJOINT_HD T of(T d) const { return d * d; }
  template <class V>
  ADJOINT_HD V slope(const V& g, const V& d) const {
    return g * (d + d);
  }
};

template <class T>
struct L1 : Difference<T, L1<T>, true> {
  static constexpr const char* kName = "l1_loss";
  using Difference<T, L1, true>::Difference;
  ADJOINT_HD T of(T d) const { return abs(d); }
  /// NaN stays NaN; at 0 an infinite g stops.
  ADJOINT_HD T slope(T g, T d) const { return d > T{0} ? g : d < T{0} ? -g : d; }
};

template <class T>
struct SmoothL1 : Difference<T, SmoothL1<T>> {
  static constexpr const char* kName = "smooth_l1_loss";
  static constexpr bool kL1AtZero = true;
  T beta, by;  // avoids a division per element
  explicit SmoothL1(double parameter) : beta(static_cast<T>(parameter)), by(static_cast<T>(0.5 / parameter)) {}
  ADJOINT_HD T of(T d) const {
    const T size = abs(d);
    return select(size < beta, size * (size * by), size - T(0.5) * beta);
  }
  template <class V>
  ADJOINT_HD V slope(const V& g, const V& d) const {
    return g * clamp(d / beta, -1, 1);
  }
};

template <class T>
struct Huber : Difference<T, Huber<T>> {
  static constexpr const char* kName = "huber_loss";
  T delta;
  explicit Huber(double parameter) : delta(static_cast<T>(parameter)) {}
  ADJOINT_HD T of(T d) const {
    const T size = abs(d);
    return select(size <= delta, T(0.5) * size * size, delta * (size - T(0.5) * delta));
  }
  template <class V>
  ADJOINT_HD V slope(const V& g, const V& d) const {
    return g * clamp(d, -delta, delta);
  }
};

template <class T>
struct Charbonnier : Difference<T, Charbonnier<T>> {
  static constexpr const char* kName = "charbonnier_loss";
  T eps;
  explicit Charbonnier(double parameter) : eps(static_cast<T>(parameter)) {}
  ADJOINT_HD T of(T d) const { return scalar::hypot(d, eps); }
  /// d / hypot(d, eps), computed from the quotient of d and eps that is at most 1, so that no square exceeds the range,
  /// in any order.
  template <class V>
  ADJOINT_HD V slope(const V& g, const V& d) const {
    const auto far = abs(d) > eps;
    const V near = where(far, zeros_like(d), d) / eps, rest = eps / where(far, d, 1);
    const V along = where(far, 1 / sqrt(rest * rest + 1), near / sqrt(near * near + 1));
    return g * where(d < 0, where(far, -along, along), along);
  }
};

/// As in PyTorch, logarithms are clamped at -100, and the derivative's denominator at 1e-12.
template <class T>
struct Bce : Pair<> {
  static constexpr const char* kName = "binary_cross_entropy";
  using Pair<>::Pair;
  ADJOINT_HD T value(T x, T y) const {
    return (y - T{1}) * clamp_min(log1p(-x), T{-100}) - y * clamp_min(log(x), T{-100});
  }
  template <class V>
  ADJOINT_HD V gradient_x(const V& g, const V& x, const V& y) const {
    return g * ((x - y) / clamp_min((1 - x) * x, 1e-12));
  }
  template <class V>
  ADJOINT_HD V gradient_y(const V& g, const V& x, const V& /*y*/) const {
    // If a logarithm is -infinity, its derivative is not a number.
    const V below = where(x != 1, clamp_min(log1p(-where(x != 1, x, 0)), -100), -100);
    return g * (below - where(x != 0, clamp_min(log(where(x != 0, x, 1)), -100), -100));
  }
};

template <class T>
struct BceWithLogits : Pair<> {
  static constexpr const char* kName = "binary_cross_entropy_with_logits";
  using Pair<>::Pair;
  /// max(x, 0) - x y + log(1 + exp(-|x|)); an infinite x does not enter the terms that y cancels.
  ADJOINT_HD T value(T x, T y) const {
    const T share = select(x < T{0}, -y, T{1} - y);
    return select((share == T{0}) & (x == x), T{0}, share * x) + log1p(exp(-abs(x)));
  }
  template <class V>
  ADJOINT_HD V gradient_x(const V& g, const V& x, const V& y) const {
    return g * (sigmoid(x) - y);
  }
  template <class V>
  ADJOINT_HD V gradient_y(const V& g, const V& x, const V& /*y*/) const {
    return -(g * x);
  }
};

/// 0 log 0 is 0 with a derivative of 0; so is 0 (log 0 - x) for any number x, including -infinity.
template <class T>
struct KlDiv : Pair<> {
  static constexpr const char* kName = "kl_div";
  using Pair<>::Pair;
  ADJOINT_HD T value(T x, T y) const { return select((y == T{0}) & (x == x), T{0}, y * log(y) - y * x); }
  template <class V>
  ADJOINT_HD V gradient_x(const V& g, const V& /*x*/, const V& y) const {
    return -(g * y);
  }
  template <class V>
  ADJOINT_HD V gradient_y(const V& g, const V& x, const V& y) const {
    return where(y != 0, g * (log(where(y != 0, y, 1)) + 1 - where(y != 0, x, 0)), 0);
  }
};

template <class T>
struct KlDivLog : Pair<> {
  static constexpr const char* kName = "kl_div";
  using Pair<>::Pair;
  ADJOINT_HD T value(T x, T y) const {
    const T p = exp(y);
    return select((p == T{0}) & (x == x), T{0}, p * (y - x));
  }
  template <class V>
  ADJOINT_HD V gradient_x(const V& g, const V& /*x*/, const V& y) const {
    return -(g * exp(y));
  }
  template <class V>
  ADJOINT_HD V gradient_y(const V& g, const V& x, const V& y) const {
    const V p = exp(y);
    return g * (p * (where(p != 0, y, 0) - where(p != 0, x, 0) + 1));
  }
};

}  // namespace adjoint::loss

// You are at stop 6 of 7 of the README's reading path, an optimiser: these are the updates of one element.
// optim/cpu/update.cpp comes next.
//
// An optimiser's update of one element of a parameter, for host and device alike. A rule is a template over the type in
// which it computes. It is made from attributes in float64, once per batch or, if only the device knows the update's
// number (gate.h), once per parameter there. Attr::of() makes them from the options of an optimiser that has no other
// rule.
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <cmath>

namespace adjoint::optim {

struct SGDAttr {
  double lr;
  double momentum;
  double dampening;
  double weight_decay;
  bool nesterov;
  double step;  // this update's number; the first makes the momentum buffer from the gradient
};

/// parameter -= lr * (gradient + weight_decay * parameter).
template <class T>
struct PlainSGD {
  using Attr = SGDAttr;
  static constexpr int kState = 0;
  T lr, weight_decay;

  ADJOINT_HD explicit PlainSGD(const Attr& a)
      : lr(static_cast<T>(a.lr)), weight_decay(static_cast<T>(a.weight_decay)) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T*) const {
    gradient += weight_decay * parameter;
    parameter -= lr * gradient;
  }
};

/// State: momentum_buffer = momentum * momentum_buffer + (1 - dampening) * gradient; the gradient itself at first.
template <class T>
struct MomentumSGD {
  using Attr = SGDAttr;
  static constexpr int kState = 1;
  T lr, weight_decay, momentum, keep, add;
  bool nesterov;

  ADJOINT_HD explicit MomentumSGD(const Attr& a)
      : lr(static_cast<T>(a.lr)),
        weight_decay(static_cast<T>(a.weight_decay)),
        momentum(static_cast<T>(a.momentum)),
        keep(static_cast<T>(a.step == 1.0 ? 0.0 : a.momentum)),
        add(static_cast<T>(a.step == 1.0 ? 1.0 : 1.0 - a.dampening)),
        nesterov(a.nesterov) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    gradient += weight_decay * parameter;
    state[0] = keep * state[0] + add * gradient;
    parameter -= lr * (nesterov ? gradient + momentum * state[0] : state[0]);
  }
};

struct AdamAttr {
  double lr, beta1, beta2, eps;
  double weight_decay;  // added to the gradient (Adam)
  double shrink;        // the parameter's factor (AdamW)
  double step;          // this update's number
};

/// State: exp_avg, exp_avg_sq and, with kAmsgrad, max_exp_avg_sq.
template <class T, bool kAmsgrad>
struct AdamRule {
  using Attr = AdamAttr;
  static constexpr int kState = kAmsgrad ? 3 : 2;
  T beta1, add1, beta2, add2, eps, weight_decay, shrink, step_size, bias_correction2_sqrt;

  ADJOINT_HD explicit AdamRule(const Attr& a)
      : beta1(static_cast<T>(a.beta1)),
        add1(static_cast<T>(1.0 - a.beta1)),
        beta2(static_cast<T>(a.beta2)),
        add2(static_cast<T>(1.0 - a.beta2)),
        eps(static_cast<T>(a.eps)),
        weight_decay(static_cast<T>(a.weight_decay)),
        shrink(static_cast<T>(a.shrink)),
        step_size(static_cast<T>(a.lr / (1.0 - std::pow(a.beta1, a.step)))),
        bias_correction2_sqrt(static_cast<T>(std::sqrt(1.0 - std::pow(a.beta2, a.step)))) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    parameter *= shrink;
    gradient += weight_decay * parameter;
    state[0] = beta1 * state[0] + add1 * gradient;
    state[1] = beta2 * state[1] + add2 * gradient * gradient;
    T second = state[1];
    if constexpr (kAmsgrad) {
      second = second > state[2] || second != second ? second : state[2];  // NaN wins
      state[2] = second;
    }
    parameter -= step_size * (state[0] / (std::sqrt(second) / bias_correction2_sqrt + eps));
  }
};
template <class T>
using PlainAdam = AdamRule<T, false>;
template <class T>
using Amsgrad = AdamRule<T, true>;

/// Adamax's, and RAdam's.
struct AdamVariantAttr {
  double lr, beta1, beta2, eps, weight_decay;
  double step;  // this update's number

  template <class Options>
  static AdamVariantAttr of(const Options& o, double step) {
    return {o.lr, o.betas[0], o.betas[1], o.eps, o.weight_decay, step};
  }
};

/// State: exp_avg, exp_inf.
template <class T>
struct AdamaxRule {
  using Attr = AdamVariantAttr;
  static constexpr int kState = 2;
  T beta1, add1, beta2, eps, weight_decay, step_size;

  ADJOINT_HD explicit AdamaxRule(const Attr& a)
      : beta1(static_cast<T>(a.beta1)),
        add1(static_cast<T>(1.0 - a.beta1)),
        beta2(static_cast<T>(a.beta2)),
        eps(static_cast<T>(a.eps)),
        weight_decay(static_cast<T>(a.weight_decay)),
        step_size(static_cast<T>(a.lr / (1.0 - std::pow(a.beta1, a.step)))) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    gradient += weight_decay * parameter;
    state[0] = beta1 * state[0] + add1 * gradient;
    const T before = beta2 * state[1], now = std::abs(gradient) + eps;
    state[1] = now > before || now != now ? now : before;  // NaN wins
    parameter -= step_size * (state[0] / state[1]);
  }
};

struct NAdamAttr {
  double lr, beta1, beta2, eps, weight_decay, momentum_decay;
  double step;  // this update's number

  template <class Options>
  static NAdamAttr of(const Options& o, double step) {
    return {o.lr, o.betas[0], o.betas[1], o.eps, o.weight_decay, o.momentum_decay, step};
  }
};

/// State: exp_avg, exp_avg_sq.
template <class T>
struct NAdamRule {
  using Attr = NAdamAttr;
  static constexpr int kState = 2;
  T beta1, add1, beta2, add2, eps, weight_decay, of_gradient, of_average, bias_correction2_sqrt;

  ADJOINT_HD explicit NAdamRule(const Attr& a)
      : beta1(static_cast<T>(a.beta1)),
        add1(static_cast<T>(1.0 - a.beta1)),
        beta2(static_cast<T>(a.beta2)),
        add2(static_cast<T>(1.0 - a.beta2)),
        eps(static_cast<T>(a.eps)),
        weight_decay(static_cast<T>(a.weight_decay)),
        bias_correction2_sqrt(static_cast<T>(std::sqrt(1.0 - std::pow(a.beta2, a.step)))) {
    const double decay = std::pow(0.96, a.momentum_decay);
    const auto momentum = [&](double power) { return a.beta1 * (1.0 - 0.5 * power); };
    const double last = std::pow(0.96, a.momentum_decay * a.step);
    // All momenta are below beta1, so their product soon is negligible beside 1.
    double product = momentum(last), power = decay;
    for (double step = 1.0; step < a.step && product > 0x1p-60; step += 1.0, power *= decay) product *= momentum(power);
    const double now = momentum(last), next = momentum(last * decay);
    of_gradient = static_cast<T>(a.lr * (1.0 - now) / (1.0 - product));
    of_average = static_cast<T>(a.lr * next / (1.0 - product * next));
  }
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    gradient += weight_decay * parameter;
    state[0] = beta1 * state[0] + add1 * gradient;
    state[1] = beta2 * state[1] + add2 * gradient * gradient;
    parameter -= (of_gradient * gradient + of_average * state[0]) / (std::sqrt(state[1]) / bias_correction2_sqrt + eps);
  }
};

/// State: exp_avg, exp_avg_sq.
template <class T>
struct RAdamRule {
  using Attr = AdamVariantAttr;
  static constexpr int kState = 2;
  T beta1, add1, beta2, add2, eps, weight_decay, step_size, rectified_size;
  bool rectified;

  ADJOINT_HD explicit RAdamRule(const Attr& a)
      : beta1(static_cast<T>(a.beta1)),
        add1(static_cast<T>(1.0 - a.beta1)),
        beta2(static_cast<T>(a.beta2)),
        add2(static_cast<T>(1.0 - a.beta2)),
        eps(static_cast<T>(a.eps)),
        weight_decay(static_cast<T>(a.weight_decay)) {
    const double power = std::pow(a.beta2, a.step), longest = 2.0 / (1.0 - a.beta2) - 1.0;
    const double length = longest - 2.0 * a.step * power / (1.0 - power);  // of the approximated simple average
    const double size = a.lr / (1.0 - std::pow(a.beta1, a.step));
    rectified = length > 5.0;
    const double variance = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length);
    step_size = static_cast<T>(size);
    rectified_size = static_cast<T>(rectified ? size * std::sqrt(variance * (1.0 - power)) : 0.0);
  }
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    gradient += weight_decay * parameter;
    state[0] = beta1 * state[0] + add1 * gradient;
    state[1] = beta2 * state[1] + add2 * gradient * gradient;
    parameter -= rectified ? rectified_size * (state[0] / (std::sqrt(state[1]) + eps)) : step_size * state[0];
  }
};

struct AdagradAttr {
  double lr, lr_decay, weight_decay;
  double initial;  // the sum's first value
  double eps;
  double step;  // this update's number

  template <class Options>
  static AdagradAttr of(const Options& o, double step) {
    return {o.lr, o.lr_decay, o.weight_decay, o.initial_accumulator_value, o.eps, step};
  }
};

/// State: sum.
template <class T>
struct AdagradRule {
  using Attr = AdagradAttr;
  static constexpr int kState = 1;
  T lr, weight_decay, initial, eps;

  ADJOINT_HD explicit AdagradRule(const Attr& a)
      : lr(static_cast<T>(a.lr / (1.0 + (a.step - 1.0) * a.lr_decay))),
        weight_decay(static_cast<T>(a.weight_decay)),
        initial(static_cast<T>(a.step == 1.0 ? a.initial : 0.0)),
        eps(static_cast<T>(a.eps)) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    gradient += weight_decay * parameter;
    state[0] += initial + gradient * gradient;
    parameter -= lr * (gradient / (std::sqrt(state[0]) + eps));
  }
};

struct RMSpropAttr {
  double lr, alpha, eps, weight_decay, momentum;
};

/// State: square_avg, then grad_avg with kCentered, then momentum_buffer with kMomentum.
template <class T, bool kCentered, bool kMomentum>
struct RMSpropRule {
  using Attr = RMSpropAttr;
  static constexpr int kState = 1 + kCentered + kMomentum;
  T lr, alpha, add, eps, weight_decay, momentum;

  ADJOINT_HD explicit RMSpropRule(const Attr& a)
      : lr(static_cast<T>(a.lr)),
        alpha(static_cast<T>(a.alpha)),
        add(static_cast<T>(1.0 - a.alpha)),
        eps(static_cast<T>(a.eps)),
        weight_decay(static_cast<T>(a.weight_decay)),
        momentum(static_cast<T>(a.momentum)) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    gradient += weight_decay * parameter;
    state[0] = alpha * state[0] + add * gradient * gradient;
    T variance = state[0];
    if constexpr (kCentered) {
      state[1] = alpha * state[1] + add * gradient;
      variance -= state[1] * state[1];
      variance = variance < T(0) ? T(0) : variance;  // rounding may make it negative; NaN stays NaN
    }
    T change = gradient / (std::sqrt(variance) + eps);
    if constexpr (kMomentum) {
      T& buffer = state[1 + kCentered];
      buffer = momentum * buffer + change;
      change = buffer;
    }
    parameter -= lr * change;
  }
};
template <class T>
using PlainRMSprop = RMSpropRule<T, false, false>;
template <class T>
using MomentumRMSprop = RMSpropRule<T, false, true>;
template <class T>
using CenteredRMSprop = RMSpropRule<T, true, false>;
template <class T>
using CenteredMomentumRMSprop = RMSpropRule<T, true, true>;

struct LionAttr {
  double lr, beta1, beta2;
  double shrink;  // the parameter's factor

  template <class Options>
  static LionAttr of(const Options& o, double /*step*/) {
    return {o.lr, o.betas[0], o.betas[1], 1.0 - o.lr * o.weight_decay};
  }
};

/// State: exp_avg.
template <class T>
struct LionRule {
  using Attr = LionAttr;
  static constexpr int kState = 1;
  T lr, beta1, add1, beta2, add2, shrink;

  ADJOINT_HD explicit LionRule(const Attr& a)
      : lr(static_cast<T>(a.lr)),
        beta1(static_cast<T>(a.beta1)),
        add1(static_cast<T>(1.0 - a.beta1)),
        beta2(static_cast<T>(a.beta2)),
        add2(static_cast<T>(1.0 - a.beta2)),
        shrink(static_cast<T>(a.shrink)) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    const T mixed = beta1 * state[0] + add1 * gradient;
    const T sign = mixed > T(0) ? T(1) : mixed < T(0) ? T(-1) : mixed;  // 0 and NaN stay unchanged
    parameter = shrink * parameter - lr * sign;
    state[0] = beta2 * state[0] + add2 * gradient;
  }
};

struct AverageAttr {
  double decay;
};

/// The "parameter" is an average, and the "gradient" the value that it follows. A decay of 0 copies.
template <class T>
struct Average {
  using Attr = AverageAttr;
  static constexpr int kState = 0;
  T decay, add;

  ADJOINT_HD explicit Average(const Attr& a) : decay(static_cast<T>(a.decay)), add(static_cast<T>(1.0 - a.decay)) {}
  ADJOINT_HD void operator()(T& average, T value, T*) const {
    average = decay == T(0) ? value : decay * average + add * value;
  }
};

}  // namespace adjoint::optim

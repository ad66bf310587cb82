// What an optimiser does to one element of a parameter, for host and device alike. A rule is a template over the type
// it computes in; it is made from attributes in float64 once a batch.
#pragma once

#include <adjoint/core/dtype.h>

#include <cmath>

namespace adjoint::optim {

struct SGDAttr {
  double lr;
  double momentum;
  double dampening;
  double weight_decay;
  bool nesterov;
  bool first;  // the momentum buffer is to be made from this gradient
};

/// parameter -= lr * (gradient + weight_decay * parameter).
template <class T>
struct PlainSGD {
  using Attr = SGDAttr;
  static constexpr int kState = 0;
  T lr, weight_decay;

  explicit PlainSGD(const Attr& a) : lr(static_cast<T>(a.lr)), weight_decay(static_cast<T>(a.weight_decay)) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T*) const {
    gradient += weight_decay * parameter;
    parameter -= lr * gradient;
  }
};

/// State: momentum_buffer = momentum * momentum_buffer + (1 - dampening) * gradient; at first the gradient itself.
template <class T>
struct MomentumSGD {
  using Attr = SGDAttr;
  static constexpr int kState = 1;
  T lr, weight_decay, momentum, keep, add;
  bool nesterov;

  explicit MomentumSGD(const Attr& a)
      : lr(static_cast<T>(a.lr)),
        weight_decay(static_cast<T>(a.weight_decay)),
        momentum(static_cast<T>(a.momentum)),
        keep(static_cast<T>(a.first ? 0.0 : a.momentum)),
        add(static_cast<T>(a.first ? 1.0 : 1.0 - a.dampening)),
        nesterov(a.nesterov) {}
  ADJOINT_HD void operator()(T& parameter, T gradient, T* state) const {
    gradient += weight_decay * parameter;
    state[0] = keep * state[0] + add * gradient;
    parameter -= lr * (nesterov ? gradient + momentum * state[0] : state[0]);
  }
};

struct AdamAttr {
  double beta1, beta2, eps;
  double weight_decay;           // added to the gradient (Adam)
  double shrink;                 // the parameter's factor (AdamW)
  double step_size;              // lr / (1 - beta1^step)
  double bias_correction2_sqrt;  // sqrt(1 - beta2^step)
};

/// State: exp_avg, exp_avg_sq and, with kAmsgrad, max_exp_avg_sq.
template <class T, bool kAmsgrad>
struct AdamRule {
  using Attr = AdamAttr;
  static constexpr int kState = kAmsgrad ? 3 : 2;
  T beta1, add1, beta2, add2, eps, weight_decay, shrink, step_size, bias_correction2_sqrt;

  explicit AdamRule(const Attr& a)
      : beta1(static_cast<T>(a.beta1)),
        add1(static_cast<T>(1.0 - a.beta1)),
        beta2(static_cast<T>(a.beta2)),
        add2(static_cast<T>(1.0 - a.beta2)),
        eps(static_cast<T>(a.eps)),
        weight_decay(static_cast<T>(a.weight_decay)),
        shrink(static_cast<T>(a.shrink)),
        step_size(static_cast<T>(a.step_size)),
        bias_correction2_sqrt(static_cast<T>(a.bias_correction2_sqrt)) {}
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

}  // namespace adjoint::optim

// Activations inside other kernels: the elementwise functors themselves, so that fused and separate results have the
// same bits. Internal to ops.
#pragma once

#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/ops/elementwise/activation_functors.h>

namespace adjoint {

/// The attributes of functor F from an activation's parameters.
template <class F>
constexpr typename F::Attr functor_attr(const Activation& activation) {
  if constexpr (std::is_same_v<typename F::Attr, ScalarAttr>) {
    return {activation.parameters[0]};
  } else if constexpr (std::is_same_v<typename F::Attr, PairAttr>) {
    return {activation.parameters[0], activation.parameters[1]};
  } else {
    return typename F::Attr{};
  }
}

/// An activation of one number that convolutions fuse, made on the host and called on either side. T is the type of the
/// computation.
template <class T>
class Activate {
 public:
  Activate() : Activate(Activation{}) {}
  explicit Activate(const Activation& activation)
      : kind_(activation.kind), leaky_relu_(ScalarAttr{activation.parameters[0]}) {}

  ADJOINT_HD bool is_none() const { return kind_ == ActivationKind::kNone; }
  ADJOINT_HD T operator()(T x) const {
    T one[1] = {x};
    (*this)(one);
    return one[0];
  }
  /// Activates several values with one decision for all of them. visit() does not fit: ptxas would wait for each
  /// product of kernels that activate their accumulators (C7514).
  template <int kCount>
  ADJOINT_HD void operator()(T (&x)[kCount]) const {
    switch (kind_) {
      case ActivationKind::kReLU: return each(functor::ReLU<T>{}, x);
      case ActivationKind::kLeakyReLU: return each(leaky_relu_, x);
      case ActivationKind::kTanh: return each(functor::Tanh<T>{}, x);
      case ActivationKind::kSigmoid: return each(functor::Sigmoid<T>{}, x);
      case ActivationKind::kSiLU: return each(functor::SiLU<T>{}, x);
      default: return;
    }
  }
  /// Calls `use` with the activation of one value. Each activation's instructions are then separate from the others',
  /// which matters if they must be fetched, as in a kernel that has just begun.
  template <class Use>
  ADJOINT_HD void visit(const Use& use) const {
    switch (kind_) {
      case ActivationKind::kReLU: return use(functor::ReLU<T>{});
      case ActivationKind::kLeakyReLU: return use(leaky_relu_);
      case ActivationKind::kTanh: return use(functor::Tanh<T>{});
      case ActivationKind::kSigmoid: return use(functor::Sigmoid<T>{});
      case ActivationKind::kSiLU: return use(functor::SiLU<T>{});
      default: return use(Unchanged{});
    }
  }

 private:
  template <class F, int kCount>
  ADJOINT_HD static void each(const F& f, T (&x)[kCount]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 0; i < kCount; ++i) x[i] = f(x[i]);
  }

  struct Unchanged {
    ADJOINT_HD T operator()(T x) const { return x; }
  };

  ActivationKind kind_;
  functor::LeakyReLU<T> leaky_relu_;
};

/// Throws Error, naming `op`, if the enumeration does not have the kind.
void check_activation(const char* op, const Activation& activation);

/// Returns true if the convolution kernels can compute the activation; "no activation" counts.
bool fuses_into_convolution(const Activation& activation);

/// Returns true if the derivative follows from the result; false for silu, and for leaky_relu with a negative slope.
/// For activations that convolutions fuse.
constexpr bool differentiates_from_result(const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::kLeakyReLU: return activation.parameters[0] >= 0.0;
    case ActivationKind::kSiLU: return false;
    default: return true;
  }
}

/// f(F{}): F is the functor (g, kept) -> g times the activation's derivative. `kept` is the activation's result, or its
/// operand if the derivative does not follow from the result. For activations that convolutions fuse, but not for "no
/// activation". T is the type of the computation.
template <class T, class Visitor>
void visit_activation_gradient(const Activation& activation, Visitor&& f) {
  const auto visit = [&]<template <class> class F>() {
    using Gradient = typename functor::GradientOf<F>::template Functor<T>;
    if constexpr (std::is_same_v<typename Gradient::Attr, NoAttr>) {
      f(Gradient{});
    } else {
      f(Gradient(functor_attr<Gradient>(activation)));
    }
  };
  switch (activation.kind) {
    case ActivationKind::kReLU: return visit.template operator()<functor::ReLU>();
    case ActivationKind::kLeakyReLU: return visit.template operator()<functor::LeakyReLU>();
    case ActivationKind::kTanh: return visit.template operator()<functor::Tanh>();
    case ActivationKind::kSigmoid: return visit.template operator()<functor::Sigmoid>();
    case ActivationKind::kSiLU: return visit.template operator()<functor::SiLU>();
    default: return;
  }
}

/// grad times the activation's derivative. `kept` is the activation's result, or its operand if the derivative does not
/// follow from the result. Recorded if a tape is live; differentiable to any order. Returns grad itself for "no
/// activation".
Tensor activation_gradient(const Activation& activation, const Tensor& grad, const Tensor& kept);
/// Writes activation_gradient() into `out`, never recorded. `activation` must not be "no activation".
void activation_gradient_into(Tensor& out, const Activation& activation, const Tensor& grad, const Tensor& kept);

/// x = activation(x), unrecorded; any floating dtype and strides.
void activate_in_place(Tensor& x, const Activation& activation);

}  // namespace adjoint

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

/// One that convolutions fuse, of one number, made on the host and called on either side. T: the type that it is
/// computed in.
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
  /// Of several, with one decision for all of them.
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

 private:
  template <class F, int kCount>
  ADJOINT_HD static void each(const F& f, T (&x)[kCount]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 0; i < kCount; ++i) x[i] = f(x[i]);
  }

  ActivationKind kind_;
  functor::LeakyReLU<T> leaky_relu_;
};

/// Throws Error, naming `op`, for a kind that the enumeration does not have.
void check_activation(const char* op, const Activation& activation);

/// What the kernels of convolutions can compute, none among it.
bool fuses_into_convolution(const Activation& activation);

/// Whether the derivative follows from the result: not silu's, nor leaky_relu's where its slope is negative. Of an
/// activation that convolutions fuse.
constexpr bool differentiates_from_result(const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::kLeakyReLU: return activation.parameters[0] >= 0.0;
    case ActivationKind::kSiLU: return false;
    default: return true;
  }
}

/// f(F{}): F is the functor (g, kept) -> g times the activation's derivative where `kept` is its result, or its operand
/// where the derivative does not follow from the result. Of one that convolutions fuse; not for none. T: the type that
/// it is computed in.
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

/// grad times the activation's derivative where `kept` is its result, or its operand where the derivative does not
/// follow from the result. Recorded where a tape is live; differentiable to any order. grad itself for none.
Tensor activation_gradient(const Activation& activation, const Tensor& grad, const Tensor& kept);
/// The same into `out`, never recorded; not for none.
void activation_gradient_into(Tensor& out, const Activation& activation, const Tensor& grad, const Tensor& kept);

/// x = activation(x), unrecorded; any floating dtype and strides.
void activate_in_place(Tensor& x, const Activation& activation);

}  // namespace adjoint

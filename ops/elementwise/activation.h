// The activations: functions of one element and up to two numbers. One row of the table below defines an activation:
// its enumerator, its value (Activation::relu()), its function (relu), the code for both devices, its module
// (nn::ReLU), and the way a Sequential pairs that with the convolution in front. Its functor has the same name in
// activation_functors.h, and elementwise.h documents it.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <array>
#include <cstdint>

// X0(Name, function, fused), X1(..., parameter, default) and X2(..., parameter, default, parameter, default). fused:
// the convolution kernels compute it as they store the result; any other activation is a separate pass.
// clang-format off
#define ADJOINT_ACTIVATIONS(X0, X1, X2)                       \
  X0(ReLU, relu, true)                                        \
  X1(LeakyReLU, leaky_relu, true, negative_slope, 0.01)       \
  X0(Tanh, tanh, true)                                        \
  X0(Sigmoid, sigmoid, true)                                  \
  X0(SiLU, silu, true)                                        \
  X0(ReLU6, relu6, false)                                     \
  X2(Hardtanh, hardtanh, false, min_val, -1.0, max_val, 1.0)  \
  X1(ELU, elu, false, alpha, 1.0)                             \
  X0(SELU, selu, false)                                       \
  X0(GELU, gelu, false)                                       \
  X0(GELUTanh, gelu_tanh, false)                              \
  X2(Softplus, softplus, false, beta, 1.0, threshold, 20.0)   \
  X0(LogSigmoid, logsigmoid, false)                           \
  X0(Softsign, softsign, false)                               \
  X0(Mish, mish, false)                                       \
  X0(Hardsigmoid, hardsigmoid, false)                         \
  X0(Hardswish, hardswish, false)
// clang-format on

namespace adjoint {

enum class ActivationKind : std::uint8_t {
  kNone,
#define ADJOINT_ENUMERATOR(Name, ...) k##Name,
  ADJOINT_ACTIVATIONS(ADJOINT_ENUMERATOR, ADJOINT_ENUMERATOR, ADJOINT_ENUMERATOR)
#undef ADJOINT_ENUMERATOR
      kEnd  // no activation: behind the last
};

/// An activation of the table with its parameters, or no activation.
struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  std::array<double, 2> parameters = {};  // in the table's order

#define ADJOINT_NAMED0(Name, function, fused) \
  static constexpr Activation function() { return {ActivationKind::k##Name}; }
#define ADJOINT_NAMED1(Name, function, fused, a, a_default) \
  static constexpr Activation function(double a = a_default) { return {ActivationKind::k##Name, {a}}; }
#define ADJOINT_NAMED2(Name, function, fused, a, a_default, b, b_default)            \
  static constexpr Activation function(double a = a_default, double b = b_default) { \
    return {ActivationKind::k##Name, {a, b}};                                        \
  }
  ADJOINT_ACTIVATIONS(ADJOINT_NAMED0, ADJOINT_NAMED1, ADJOINT_NAMED2)
#undef ADJOINT_NAMED0
#undef ADJOINT_NAMED1
#undef ADJOINT_NAMED2

  constexpr bool is_none() const { return kind == ActivationKind::kNone; }
  friend constexpr bool operator==(const Activation&, const Activation&) = default;
};

/// Applies `activation` to every element; returns x itself for no activation. Differentiable to any order. Throws Error
/// if the table does not have the kind, and whenever the activation's function throws.
ADJOINT_API Tensor activate(const Tensor& x, const Activation& activation);

}  // namespace adjoint

// An activation as a value: what a convolution does to each element of its result before that is rounded and stored.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

enum class ActivationKind : std::uint8_t { kNone, kReLU, kLeakyReLU, kTanh, kSigmoid, kSiLU };

/// One of elementwise.h's activations, or none.
struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  double negative_slope = 0.0;  // of leaky_relu

  static constexpr Activation relu() { return {ActivationKind::kReLU}; }
  static constexpr Activation leaky_relu(double negative_slope = 0.01) {
    return {ActivationKind::kLeakyReLU, negative_slope};
  }
  static constexpr Activation tanh() { return {ActivationKind::kTanh}; }
  static constexpr Activation sigmoid() { return {ActivationKind::kSigmoid}; }
  static constexpr Activation silu() { return {ActivationKind::kSiLU}; }

  constexpr bool is_none() const { return kind == ActivationKind::kNone; }
  friend constexpr bool operator==(const Activation&, const Activation&) = default;
};

/// The function that `activation` names, of every element; x itself for none. Differentiable to any order.
ADJOINT_API Tensor activate(const Tensor& x, const Activation& activation);

}  // namespace adjoint

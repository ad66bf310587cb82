// Muon.
#pragma once

#include <adjoint/optim/optimizer.h>

#include <array>
#include <cstdint>

namespace adjoint::optim {

/// The factor on the rate for a matrix (A, B): sqrt(max(1, A / B)), or 0.2 sqrt(max(A, B)). The latter gives updates
/// the size of AdamW's, whose rate and weight decay then suit both (Liu et al.: "Muon is scalable for LLM
/// training", 2025).
enum class MuonRate : std::uint8_t { kOriginal, kMatchRmsAdamW };

struct MuonOptions {
  double lr = 1e-3;
  /// p shrinks by lr * weight_decay * p, apart from the gradient.
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  /// Coefficients of the polynomial a x + b x^3 + c x^5 that a step of the iteration applies to singular values.
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  /// The least norm that an update is divided by.
  double eps = 1e-7;
  std::int64_t ns_steps = 5;
  MuonRate adjust_lr_fn = MuonRate::kOriginal;
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "Muon";
  /// Throws Error for negative options, a momentum of 1 or above, and ns_steps below 1.
  ADJOINT_API void check() const;
  /// Throws Error for fewer than two axes.
  ADJOINT_API void check(const Tensor& parameter) const;
  ADJOINT_API std::vector<std::string> state_names() const;
};

// Compiled once, in the library.
extern template class ADJOINT_API OptimizerOf<MuonOptions>;

/// Momentum orthogonalised by Newton and Schulz's iteration (Jordan et al.: "Muon: an optimizer for hidden layers in
/// neural networks", 2024): b = momentum * b + (1 - momentum) * g, and p = (1 - lr * weight_decay) p - rate * U, U
/// being nearly the orthogonal factor of b, with nesterov that of momentum * b + (1 - momentum) * g. For weights of
/// hidden layers: matrices, and filters, as (output channels, everything else); for the others use AdamW. Computed in
/// float32, float64 parameters in that (PyTorch iterates in bfloat16). A step launches some 20 operators a parameter.
/// State: "momentum_buffer".
class ADJOINT_API Muon : public OptimizerOf<MuonOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update(const ParameterUpdate& update) override;
};

}  // namespace adjoint::optim

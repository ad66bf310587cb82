// Lion.
#pragma once

#include <adjoint/optim/optimizer.h>

#include <array>

namespace adjoint::optim {

struct LionOptions {
  double lr = 1e-4;
  /// The average's shares in the step's direction, and in the next average.
  std::array<double, 2> betas = {0.9, 0.99};
  /// p shrinks by lr * weight_decay * p, apart from the gradient.
  double weight_decay = 0.0;
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "Lion";
  /// Throws Error for a negative weight_decay, and for betas outside [0, 1).
  void check() const {
    detail::check_betas(kName, betas);
    detail::check_not_negative(kName, {{"weight_decay", weight_decay}});
  }
  std::vector<std::string> state_names() const { return {"exp_avg"}; }
};

// Compiled once, in the library.
extern template class ADJOINT_API OptimizerOf<LionOptions>;

/// Chen et al.: "Symbolic discovery of optimization algorithms" (2023), algorithm 2:
/// p -= lr * (sign(beta1 * exp_avg + (1 - beta1) * g) + weight_decay * p), then
/// exp_avg = beta2 * exp_avg + (1 - beta2) * g. State: "exp_avg".
class ADJOINT_API Lion : public OptimizerOf<LionOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

}  // namespace adjoint::optim

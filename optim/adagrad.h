// Adagrad.
#pragma once

#include <adjoint/optim/optimizer.h>

namespace adjoint::optim {

struct AdagradOptions {
  double lr = 1e-2;
  /// Step t has the rate lr / (1 + (t - 1) * lr_decay).
  double lr_decay = 0.0;
  /// L2 penalty: weight_decay * p is added to the gradient.
  double weight_decay = 0.0;
  /// The sum of squares' first value.
  double initial_accumulator_value = 0.0;
  /// Added to the denominator.
  double eps = 1e-10;
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "Adagrad";
  /// Throws Error for negative options.
  void check() const {
    detail::check_not_negative(kName, {{"lr_decay", lr_decay},
                                       {"weight_decay", weight_decay},
                                       {"initial_accumulator_value", initial_accumulator_value},
                                       {"eps", eps}});
  }
  std::vector<std::string> state_names() const { return {"sum"}; }
};

// Compiled once, in the library.
extern template class ADJOINT_API OptimizerOf<AdagradOptions>;

/// Duchi, Hazan, Singer: "Adaptive subgradient methods for online learning and stochastic optimization" (2011):
/// sum += g^2; p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum) + eps). State: "sum".
class ADJOINT_API Adagrad : public OptimizerOf<AdagradOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

}  // namespace adjoint::optim

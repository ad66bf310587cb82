// RMSprop.
#pragma once

#include <adjoint/optim/optimizer.h>

namespace adjoint::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  /// Decay rate of the average of squared gradients.
  double alpha = 0.99;
  /// Added to the denominator.
  double eps = 1e-8;
  /// L2 penalty: weight_decay * p is added to the gradient.
  double weight_decay = 0.0;
  double momentum = 0.0;
  /// Divides by the gradients' standard deviation, not by the root of their mean square.
  bool centered = false;
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "RMSprop";
  /// Throws Error for negative options, and for an alpha of 1 or above.
  ADJOINT_API void check() const;
  ADJOINT_API std::vector<std::string> state_names() const;
};

// Compiled once, in the library.
extern template class ADJOINT_API OptimizerOf<RMSpropOptions>;

/// PyTorch's RMSprop (Tieleman, Hinton: "Neural networks for machine learning", lecture 6.5, 2012; centred: Graves,
/// "Generating sequences with recurrent neural networks", 2013): g = gradient + weight_decay * p; d = g /
/// (sqrt(square_avg [- grad_avg^2]) + eps); b = momentum * b + d; p -= lr * b. State: "square_avg", with centered
/// "grad_avg", and "momentum_buffer" if momentum is not 0.
class ADJOINT_API RMSprop : public OptimizerOf<RMSpropOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

}  // namespace adjoint::optim

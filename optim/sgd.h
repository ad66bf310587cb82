// Stochastic gradient descent.
#pragma once

#include <adjoint/optim/optimizer.h>

namespace adjoint::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "SGD";
  /// Throws Error for negative options, and for Nesterov's momentum with dampening or without momentum.
  ADJOINT_API void check() const;
  ADJOINT_API std::vector<std::string> state_names() const;
};

// Compiled once, in the library.
extern template class ADJOINT_API OptimizerOf<SGDOptions>;

/// PyTorch's SGD: g = gradient + weight_decay * p; b = momentum * b + (1 - dampening) * g, initially g; p -= lr *
/// (nesterov ? g + momentum * b : b). Sutskever, Martens, Dahl, Hinton: "On the importance of initialization and
/// momentum in deep learning" (2013). State: "momentum_buffer" if momentum is not 0.
class ADJOINT_API SGD : public OptimizerOf<SGDOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

}  // namespace adjoint::optim

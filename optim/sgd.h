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
};

/// PyTorch's SGD: g = gradient + weight_decay * p; b = momentum * b + (1 - dampening) * g, at first g;
/// p -= lr * (nesterov ? g + momentum * b : b). Sutskever, Martens, Dahl, Hinton: "On the importance of initialization
/// and momentum in deep learning" (2013). State: "momentum_buffer", where momentum is not 0.
class ADJOINT_API SGD : public Optimizer {
 public:
  /// Throws Error for negative options, and for Nesterov's momentum with dampening or without momentum.
  explicit SGD(std::vector<Tensor> parameters, const SGDOptions& options = {});

 protected:
  void update_batch(const Batch& batch) override;

 private:
  SGDOptions options_;
};

}  // namespace adjoint::optim

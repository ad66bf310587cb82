// Adam and AdamW.
#pragma once

#include <adjoint/optim/optimizer.h>

#include <array>

namespace adjoint::optim {

struct AdamOptions {
  double lr = 1e-3;
  /// Decay rates of the averages of gradient and squared gradient.
  std::array<double, 2> betas = {0.9, 0.999};
  /// Added to the denominator.
  double eps = 1e-8;
  /// L2 penalty: weight_decay * p is added to the gradient.
  double weight_decay = 0.0;
  /// Divides by the largest average of squares so far (Reddi, Kale, Kumar: "On the convergence of Adam and beyond",
  /// 2018).
  bool amsgrad = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  /// p shrinks by lr * weight_decay * p, apart from the gradient.
  double weight_decay = 1e-2;
  bool amsgrad = false;
};

/// Kingma, Ba: "Adam: a method for stochastic optimization" (2015), as PyTorch computes it:
/// p -= lr / (1 - beta1^t) * exp_avg / (sqrt(exp_avg_sq / (1 - beta2^t)) + eps).
/// State: "exp_avg", "exp_avg_sq" and, with amsgrad, "max_exp_avg_sq".
class ADJOINT_API Adam : public Optimizer {
 public:
  /// Throws Error for negative lr, eps or weight_decay, and for betas outside [0, 1).
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {});

 protected:
  void update_batch(const Batch& batch) override;

 private:
  AdamOptions options_;
};

/// Adam with decoupled weight decay (Loshchilov, Hutter: "Decoupled weight decay regularization", 2019).
class ADJOINT_API AdamW : public Optimizer {
 public:
  /// As Adam.
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});

 protected:
  void update_batch(const Batch& batch) override;

 private:
  AdamWOptions options_;
};

}  // namespace adjoint::optim

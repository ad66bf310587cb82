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
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "Adam";
  /// Throws Error for negative eps or weight_decay, and for betas outside [0, 1).
  ADJOINT_API void check() const;
  ADJOINT_API std::vector<std::string> state_names() const;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  /// p shrinks by lr * weight_decay * p, apart from the gradient.
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool master_weights = true;

  static constexpr const char* kName = "AdamW";
  /// Throws Error as AdamOptions::check() does.
  ADJOINT_API void check() const;
  ADJOINT_API std::vector<std::string> state_names() const;
};

// Compiled once, in the library.
extern template class ADJOINT_API OptimizerOf<AdamOptions>;
extern template class ADJOINT_API OptimizerOf<AdamWOptions>;

/// Kingma, Ba: "Adam: a method for stochastic optimization" (2015), as PyTorch computes it:
/// p -= lr / (1 - beta1^t) * exp_avg / (sqrt(exp_avg_sq / (1 - beta2^t)) + eps).
/// State: "exp_avg", "exp_avg_sq" and, with amsgrad, "max_exp_avg_sq".
class ADJOINT_API Adam : public OptimizerOf<AdamOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

/// Adam with decoupled weight decay (Loshchilov, Hutter: "Decoupled weight decay regularization", 2019).
class ADJOINT_API AdamW : public OptimizerOf<AdamWOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

}  // namespace adjoint::optim

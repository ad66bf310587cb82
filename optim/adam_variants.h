// Adamax, NAdam and RAdam: Adam with another norm, with Nesterov's momentum, and with a built-in warm-up.
#pragma once

#include <adjoint/optim/optimizer.h>

#include <array>

namespace adjoint::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  /// Decay rates of the average of gradients and of the largest gradient.
  std::array<double, 2> betas = {0.9, 0.999};
  /// Added to the gradient's absolute value.
  double eps = 1e-8;
  /// L2 penalty: weight_decay * p is added to the gradient.
  double weight_decay = 0.0;
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "Adamax";
  /// As Adam's.
  void check() const {
    detail::check_betas(kName, betas);
    detail::check_not_negative(kName, {{"eps", eps}, {"weight_decay", weight_decay}});
  }
  std::vector<std::string> state_names() const { return {"exp_avg", "exp_inf"}; }
};

struct NAdamOptions {
  double lr = 2e-3;
  /// Decay rates of the averages of gradient and squared gradient.
  std::array<double, 2> betas = {0.9, 0.999};
  /// Added to the denominator.
  double eps = 1e-8;
  /// L2 penalty: weight_decay * p is added to the gradient.
  double weight_decay = 0.0;
  /// The momentum of step t is betas[0] * (1 - 0.96^(t * momentum_decay) / 2).
  double momentum_decay = 4e-3;
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "NAdam";
  /// As Adam's; throws Error for a negative momentum_decay, too.
  void check() const {
    detail::check_betas(kName, betas);
    detail::check_not_negative(kName,
                               {{"eps", eps}, {"weight_decay", weight_decay}, {"momentum_decay", momentum_decay}});
  }
  std::vector<std::string> state_names() const { return {"exp_avg", "exp_avg_sq"}; }
};

struct RAdamOptions {
  double lr = 1e-3;
  /// Decay rates of the averages of gradient and squared gradient.
  std::array<double, 2> betas = {0.9, 0.999};
  /// Added to the denominator.
  double eps = 1e-8;
  /// L2 penalty: weight_decay * p is added to the gradient.
  double weight_decay = 0.0;
  /// Float32 copies of parameters of half precision (Optimizer::step).
  bool master_weights = true;

  static constexpr const char* kName = "RAdam";
  /// As Adam's.
  void check() const {
    detail::check_betas(kName, betas);
    detail::check_not_negative(kName, {{"eps", eps}, {"weight_decay", weight_decay}});
  }
  std::vector<std::string> state_names() const { return {"exp_avg", "exp_avg_sq"}; }
};

// Compiled once, in the library.
extern template class ADJOINT_API OptimizerOf<AdamaxOptions>;
extern template class ADJOINT_API OptimizerOf<NAdamOptions>;
extern template class ADJOINT_API OptimizerOf<RAdamOptions>;

/// Kingma, Ba: "Adam: a method for stochastic optimization" (2015), section 7, as PyTorch computes it:
/// exp_inf = max(beta2 * exp_inf, |g| + eps); p -= lr / (1 - beta1^t) * exp_avg / exp_inf.
/// State: "exp_avg" and "exp_inf".
class ADJOINT_API Adamax : public OptimizerOf<AdamaxOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

/// Dozat: "Incorporating Nesterov momentum into Adam" (2016), as PyTorch computes it, with the momentum m of this step
/// and n of the next, and M the product of all momenta so far:
/// p -= lr * ((1 - m) / (1 - M) * g + n / (1 - M n) * exp_avg) / (sqrt(exp_avg_sq / (1 - beta2^t)) + eps).
/// M is that of the present options: a schedule that cycles betas[0] changes the momenta of former steps with it.
/// State: "exp_avg" and "exp_avg_sq".
class ADJOINT_API NAdam : public OptimizerOf<NAdamOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

/// Liu et al.: "On the variance of the adaptive learning rate and beyond" (2020), as PyTorch computes it: Adam, whose
/// step is scaled by the rectification r of its denominator's variance; while r is undefined, momentum alone. State:
/// "exp_avg" and "exp_avg_sq".
class ADJOINT_API RAdam : public OptimizerOf<RAdamOptions> {
 public:
  using OptimizerOf::OptimizerOf;

 protected:
  void update_batch(const Batch& batch) override;
  bool is_fused() const override { return true; }
};

}  // namespace adjoint::optim

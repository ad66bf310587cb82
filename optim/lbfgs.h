// L-BFGS, which evaluates the loss as often as it needs.
//
//   optim::LBFGS lbfgs(net.parameters(), {.line_search_fn = "strong_wolfe"});
//   for (int step = 0; step < 20; ++step) {
//     lbfgs.step([&] {
//       lbfgs.zero_grad();
//       Tape tape;
//       const Tensor loss = mse_loss(net(x), y);
//       tape.backward(loss);
//       return loss;
//     });
//   }
#pragma once

#include <adjoint/optim/optimizer.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::optim {

struct LBFGSOptions {
  double lr = 1.0;
  /// The largest number of iterations in one step().
  std::int64_t max_iter = 20;
  /// A step() begins no iteration after this many evaluations; by default 5/4 max_iter.
  std::optional<std::int64_t> max_eval = {};
  /// A step() ends if no element of the gradient is larger ...
  double tolerance_grad = 1e-7;
  /// ... and if neither a parameter nor the loss changes by more.
  double tolerance_change = 1e-9;
  /// The number of former changes from which the Hessian is approximated.
  std::int64_t history_size = 100;
  /// "strong_wolfe", or "": each iteration then moves by lr times the direction.
  std::string line_search_fn = {};

  /// Throws Error for negative tolerances, for numbers below 1, and for other searches.
  ADJOINT_API void check() const;
};

/// Liu, Nocedal: "On the limited memory BFGS method for large scale optimization" (1989), as PyTorch computes it. All
/// parameters are one group, and share a dtype and a device; updates of those of half precision are computed in
/// float32. The optimiser needs memory for 2 history_size + 4 copies of them, and waits for the device in each
/// iteration.
class ADJOINT_API LBFGS : public Optimizer {
 public:
  /// Computes the loss, puts its gradients into the parameters' .grad(), and returns it.
  using Closure = std::function<Tensor()>;

  /// Throws Error for invalid options, and for parameters as Optimizer does.
  explicit LBFGS(std::vector<Tensor> parameters, const LBFGSOptions& options = {});
  template <std::convertible_to<double> Rate>
  LBFGS(std::vector<Tensor> parameters, const Rate& lr)
      : LBFGS(std::move(parameters), LBFGSOptions{.lr = static_cast<double>(lr)}) {}

  /// Returns the loss of the first evaluation. A parameter without a gradient counts as one whose gradient is 0. A
  /// frozen group does not change. If the closure throws, the parameters and the state are as before. Throws Error for
  /// a closure that is empty or returns no loss of one element, and if the parameters differ in dtype or device.
  Tensor step(const Closure& closure);
  LBFGSOptions options() const;

  /// Optimizer's entries, and after the first step "lbfgs.n_iter", "lbfgs.func_evals" (int64), "lbfgs.t",
  /// "lbfgs.H_diag", "lbfgs.prev_loss" (float64), "lbfgs.d", "lbfgs.prev_flat_grad" (elements), "lbfgs.old_dirs" and
  /// "lbfgs.old_stps" (history, elements).
  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state, const LoadStateOptions& options = {}) override;

 protected:
  /// Throws Error, because a step without a closure, such as a GradScaler's, is impossible.
  void update(const ParameterUpdate& update) override;

 private:
  struct Memory {
    std::int64_t iterations = 0, evaluations = 0;
    double length = 0.0;  // of the last step along `direction`
    double scale = 1.0;   // of the inverse Hessian that the changes correct
    double loss = 0.0;
    Tensor direction, gradient;                               // (elements)
    std::vector<Tensor> gradient_changes, parameter_changes;  // oldest first
  };

  Tensor flat(bool gradients) const;
  void write(const Tensor& values);
  double evaluate(const Closure& closure, Tensor& loss);
  void find_direction(Memory& memory, const Tensor& gradient) const;
  void iterate(const Closure& closure, Memory& memory, double loss, Tensor gradient);

  LBFGSOptions options_;
  Memory memory_;
};

}  // namespace adjoint::optim

// Learning-rate schedules: each sets its optimiser's learning rate as a function of the number of steps, in closed
// form, so that a schedule that was saved and loaded goes on with the same numbers.
//
//   optim::CosineAnnealingLR schedule(adam, {.T_max = epochs});
//   for (...) { train(); schedule.step(); }
#pragma once

#include <adjoint/core/named_tensors.h>
#include <adjoint/optim/optimizer.h>

#include <cstdint>

namespace adjoint::optim {

/// For the first `steps` steps the learning rate rises in a line from start_factor times the optimiser's to the whole
/// of it; then the schedule begins. PyTorch's LinearLR followed by the schedule in a SequentialLR.
struct Warmup {
  std::int64_t steps = 0;
  double start_factor = 1.0 / 3.0;
};

/// Base of the schedules. The optimiser must outlive it; its learning rate at construction is the base rate.
class ADJOINT_API Schedule {
 public:
  virtual ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Counts one step (an epoch, or an update: as the program likes) and sets the learning rate. Throws Error, and
  /// counts nothing, where the rate is not finite.
  void step();
  /// Steps so far.
  std::int64_t last_epoch() const { return last_epoch_; }

  /// "last_epoch" (int64) and "base_lr" (float64).
  NamedTensors state_dict() const;
  /// Throws Error, and changes nothing, for names or dtypes that do not fit.
  void load_state_dict(const NamedTensors& state);

 protected:
  Schedule(const char* name, Optimizer& optimizer, const Warmup& warmup);
  /// The learning rate after t steps, without warm-up. Constructors end with apply().
  virtual double rate(double base_lr, std::int64_t t) const = 0;
  void apply();

 private:
  void move_to(std::int64_t last_epoch, double base_lr);

  const char* name_;
  Optimizer& optimizer_;
  Warmup warmup_;
  double base_lr_;
  std::int64_t last_epoch_ = 0;
};

struct StepLROptions {
  std::int64_t step_size = 0;
  double gamma = 0.1;
  Warmup warmup = {};
};
/// base_lr * gamma^floor(t / step_size). Throws Error for step_size below 1.
class ADJOINT_API StepLR : public Schedule {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);

 protected:
  double rate(double base_lr, std::int64_t t) const override;

 private:
  StepLROptions options_;
};

struct CosineAnnealingLROptions {
  /// Steps from the base rate down to eta_min.
  std::int64_t T_max = 0;
  double eta_min = 0.0;
  Warmup warmup = {};
};
/// eta_min + (base_lr - eta_min) * (1 + cos(pi * t / T_max)) / 2 (Loshchilov, Hutter: "SGDR", 2017, without restarts).
/// Throws Error for T_max below 1.
class ADJOINT_API CosineAnnealingLR : public Schedule {
 public:
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);

 protected:
  double rate(double base_lr, std::int64_t t) const override;

 private:
  CosineAnnealingLROptions options_;
};

}  // namespace adjoint::optim

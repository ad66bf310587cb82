// Learning-rate schedules: the learning rates as a function of the number of steps, in closed form, so that a schedule
// that was saved and loaded continues with the same numbers.
//
//   optim::CosineAnnealingLR schedule(adam, {.T_max = epochs, .warmup = {.steps = 5}});  // or (adam, epochs)
//   for (...) { train(); schedule.step(); }
//
// A schedule's options are its curve. Curves make others, and each group of an optimiser may have its own:
//
//   optim::SequentialLR schedule(adam, {.schedules = {optim::ConstantLROptions{.factor = 0.1, .total_iters = 4},
//                                                     optim::ExponentialLROptions{.gamma = 0.9}},
//                                       .milestones = {4}});
//   optim::Schedule schedule(adam, {optim::ConstantLROptions{.factor = 1.0}, optim::StepLROptions{.step_size = 30}});
//
// A curve of one's own is a LambdaLR, or an aggregate with `kName`, `check()` and `lr()` as the options below.
// ReduceLROnPlateau, which needs a metric, is in plateau.h.
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/optim/optimizer.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::optim {

/// For the first `steps` steps the learning rate rises linearly from start_factor times the group's own rate to the
/// full rate; then the schedule begins. Equals PyTorch's LinearLR followed by the schedule in a SequentialLR.
struct ADJOINT_API Warmup {
  std::int64_t steps = 0;
  double start_factor = 1.0 / 3.0;

  /// Throws Error, naming the schedule, for negative steps and for a start_factor outside [0, 1].
  void check(const char* schedule) const;
  /// The factor of the learning rate after t steps, t below `steps`.
  double factor(std::int64_t t) const;
};

/// The interface of a schedule's options: `check()` throws Error for invalid values, and `lr` returns the rate after t
/// steps.
template <class O>
concept ScheduleOptions = requires(const O& options, double base_lr, std::int64_t t) {
  { O::kName } -> std::convertible_to<const char*>;
  options.check();
  { options.lr(base_lr, t) } -> std::convertible_to<double>;
};

/// Any schedule's options, checked, with their warm-up if they have one.
class ADJOINT_API Curve {
 public:
  template <ScheduleOptions O>
  Curve(const O& options)  // NOLINT(google-explicit-constructor)
      : name_(O::kName), lr_([options](double base_lr, std::int64_t t) { return options.lr(base_lr, t); }) {
    options.check();
    if constexpr (requires { options.momentum(std::int64_t{}); }) {
      momentum_ = [options](std::int64_t t) { return options.momentum(t); };
    }
    if constexpr (requires { options.warmup; }) {
      options.warmup.check(name_);
      warmup_ = options.warmup;
    }
  }

  const char* name() const { return name_; }
  /// The learning rate after t steps for a group with base rate base_lr. Throws Error after the end of a OneCycleLR.
  double lr(double base_lr, std::int64_t t) const;
  /// The momentum at that step; empty if the schedule does not change it.
  std::optional<double> momentum(std::int64_t t) const;

 private:
  const char* name_;
  std::function<double(double, std::int64_t)> lr_;
  std::function<std::optional<double>(std::int64_t)> momentum_;
  Warmup warmup_;
};

namespace detail {

template <class Options, class... First>
inline constexpr bool kAreFirstOptions = false;
template <class Options, class A>
inline constexpr bool kAreFirstOptions<Options, A> = requires(const A& a) {
  Options{a};
};
// Rejects a number that would become the steps of a warm-up, which PyTorch's arguments do not have.
template <class Options, class A, class B>
inline constexpr bool kAreFirstOptions<Options, A, B> = requires(const A& a, const B& b) {
  Options{a, b};
}
&&!requires(const A& a, Warmup w) { Options{a, w}; };

/// Values with which `Options` can be initialised.
template <class Options, class... First>
concept FirstOptions = kAreFirstOptions<Options, First...> && !(std::convertible_to<First, Options> || ...);

/// A schedule's claim on its optimiser while the schedule lives. Throws Error if another schedule has a claim.
class ADJOINT_API ScheduleHold {
 public:
  ScheduleHold(const std::string& name, Optimizer& optimizer);
  const std::string& name() const { return *name_; }
  Optimizer& optimizer() const { return optimizer_; }

 private:
  std::shared_ptr<const std::string> name_;
  Optimizer& optimizer_;
};

}  // namespace detail

/// Sets an optimiser's learning rates. The optimiser must outlive it and stay in place; its groups' learning rates at
/// construction are the base rates.
class ADJOINT_API Schedule {
 public:
  /// One curve for all groups, or one for each. Throws Error for another number of curves, if the optimiser already has
  /// a schedule (SequentialLR and ChainedScheduler combine several), and if a curve cycles a momentum that the
  /// optimiser does not keep.
  Schedule(Optimizer& optimizer, std::vector<Curve> curves);
  virtual ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Counts one step (an epoch or an update, as the program chooses) and sets the learning rates. A group that was
  /// added since joins with its current learning rate. Throws Error, and counts nothing, if a rate is not finite or is
  /// negative.
  void step();
  /// Steps so far.
  std::int64_t last_epoch() const { return last_epoch_; }
  /// The learning rates of all groups.
  std::vector<double> get_last_lr() const;
  /// The group's learning rates now and after 1, 2, ... n - 1 further steps; nothing is changed. Throws Error for a
  /// negative n and if there is no such group.
  std::vector<double> preview(std::int64_t n, std::size_t group = 0) const;

  /// "last_epoch" (int64) and "base_lr" (float64; one for each of several groups).
  NamedTensors state_dict() const;
  /// Also sets the learning rates. Throws Error, and changes nothing, for names, shapes or dtypes that do not fit.
  void load_state_dict(const NamedTensors& state);

 private:
  const Curve& curve(std::size_t group) const { return curves_[curves_.size() == 1 ? 0 : group]; }
  void check_curves() const;
  void move_to(std::int64_t last_epoch, std::vector<double> base_lrs);

  detail::ScheduleHold hold_;
  std::vector<Curve> curves_;
  std::vector<double> base_lrs_;  // one per group
  std::int64_t last_epoch_ = 0;
};

/// The schedule of these options.
template <ScheduleOptions Options>
class ScheduleOf : public Schedule {
 public:
  /// Throws Error for invalid options, and as Schedule does.
  ScheduleOf(Optimizer& optimizer, const Options& options) : Schedule(optimizer, {Curve(options)}) {}
  /// With only the first one or two options, as in PyTorch: StepLR(sgd, 30, 0.1), LambdaLR(sgd, f).
  template <class... First>
  requires detail::FirstOptions<Options, First...> ScheduleOf(Optimizer& optimizer, const First&... first)
      : ScheduleOf(optimizer, Options{first...}) {}
};

// ---- The curves, with PyTorch's names and defaults; t counts steps from the end of the warm-up. check() lists each
// one's errors.

/// base_lr * factor for the first total_iters steps, then base_lr. A factor in [0, 1].
struct ADJOINT_API ConstantLROptions {
  double factor = 1.0 / 3.0;
  std::int64_t total_iters = 5;
  Warmup warmup = {};

  static constexpr const char* kName = "ConstantLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

/// base_lr times a factor that goes from start_factor to end_factor in total_iters steps. Factors in [0, 1].
struct ADJOINT_API LinearLROptions {
  double start_factor = 1.0 / 3.0, end_factor = 1.0;
  std::int64_t total_iters = 5;
  Warmup warmup = {};

  static constexpr const char* kName = "LinearLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

/// base_lr * gamma^floor(t / step_size). step_size at least 1.
struct ADJOINT_API StepLROptions {
  std::int64_t step_size = 0;
  double gamma = 0.1;
  Warmup warmup = {};

  static constexpr const char* kName = "StepLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

/// base_lr * gamma^(the number of milestones that are at most t). Milestones not negative, in any order.
struct ADJOINT_API MultiStepLROptions {
  std::vector<std::int64_t> milestones = {};
  double gamma = 0.1;
  Warmup warmup = {};

  static constexpr const char* kName = "MultiStepLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

/// base_lr * gamma^t. gamma above 0.
struct ADJOINT_API ExponentialLROptions {
  double gamma = 0.0;
  Warmup warmup = {};

  static constexpr const char* kName = "ExponentialLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

/// base_lr * (1 - min(t, total_iters) / total_iters)^power. total_iters at least 1, power not negative.
struct ADJOINT_API PolynomialLROptions {
  std::int64_t total_iters = 5;
  double power = 1.0;
  Warmup warmup = {};

  static constexpr const char* kName = "PolynomialLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

/// eta_min + (base_lr - eta_min) * (1 + cos(pi * t / T_max)) / 2 (Loshchilov, Hutter: "SGDR", 2017, without restarts):
/// from the base rate down to eta_min in T_max steps, and up again. T_max at least 1, eta_min not negative.
struct ADJOINT_API CosineAnnealingLROptions {
  std::int64_t T_max = 0;
  double eta_min = 0.0;
  Warmup warmup = {};

  static constexpr const char* kName = "CosineAnnealingLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

/// The same with restarts at the base rate, after T_0 steps, then after T_0 * T_mult, then T_0 * T_mult^2, ... (SGDR).
/// T_0 and T_mult at least 1, eta_min not negative.
struct ADJOINT_API CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0 = 0;
  std::int64_t T_mult = 1;
  double eta_min = 0.0;
  Warmup warmup = {};

  static constexpr const char* kName = "CosineAnnealingWarmRestarts";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

enum class Anneal { kCos, kLinear };

/// From max_lr / div_factor up to max_lr in the first pct_start of total_steps, then down to max_lr / div_factor /
/// final_div_factor, for any base rate; with three_phase it first falls to the initial rate in as many steps as it
/// rose, and then to the end (Smith, Topin: "Super-convergence", 2017). Meanwhile momentum, or betas[0], goes from
/// max_momentum down to base_momentum and back; that needs an optimiser that keeps an average of gradients, so SGD and
/// RMSprop need a momentum above 0. The step after total_steps - 1, which a loop takes after its last update, keeps the
/// last rate; further ones throw Error. total_steps at least 1, max_lr not negative, pct_start in [0, 1], factors above
/// 0, momenta above 0 and below 1.
struct ADJOINT_API OneCycleLROptions {
  double max_lr = 0.0;
  std::int64_t total_steps = 0;
  double pct_start = 0.3;
  Anneal anneal_strategy = Anneal::kCos;
  bool cycle_momentum = true;
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25.0, final_div_factor = 1e4;
  bool three_phase = false;

  static constexpr const char* kName = "OneCycleLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
  std::optional<double> momentum(std::int64_t t) const;
};

/// base_lr * lr_lambda(t).
struct ADJOINT_API LambdaLROptions {
  std::function<double(std::int64_t t)> lr_lambda = {};
  Warmup warmup = {};

  static constexpr const char* kName = "LambdaLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
};

/// The first curve up to the first milestone, then the second from its beginning, and so on. Milestones are above 0 and
/// ascending, one fewer than curves.
struct ADJOINT_API SequentialLROptions {
  std::vector<Curve> schedules = {};
  std::vector<std::int64_t> milestones = {};

  static constexpr const char* kName = "SequentialLR";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
  std::optional<double> momentum(std::int64_t t) const;
};

/// Several curves at once: the rate of each is the base rate of the next. For curves that multiply the base rate that
/// equals PyTorch's ChainedScheduler: all but cosines with an eta_min.
struct ADJOINT_API ChainedSchedulerOptions {
  std::vector<Curve> schedules = {};

  static constexpr const char* kName = "ChainedScheduler";
  void check() const;
  double lr(double base_lr, std::int64_t t) const;
  std::optional<double> momentum(std::int64_t t) const;
};

using ConstantLR = ScheduleOf<ConstantLROptions>;
using LinearLR = ScheduleOf<LinearLROptions>;
using StepLR = ScheduleOf<StepLROptions>;
using MultiStepLR = ScheduleOf<MultiStepLROptions>;
using ExponentialLR = ScheduleOf<ExponentialLROptions>;
using PolynomialLR = ScheduleOf<PolynomialLROptions>;
using CosineAnnealingLR = ScheduleOf<CosineAnnealingLROptions>;
using CosineAnnealingWarmRestarts = ScheduleOf<CosineAnnealingWarmRestartsOptions>;
using OneCycleLR = ScheduleOf<OneCycleLROptions>;
using LambdaLR = ScheduleOf<LambdaLROptions>;
using SequentialLR = ScheduleOf<SequentialLROptions>;
using ChainedScheduler = ScheduleOf<ChainedSchedulerOptions>;

}  // namespace adjoint::optim

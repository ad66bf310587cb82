// The curves of schedule.h: the checks of their options, and their formulas.
#include <adjoint/optim/schedule.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace adjoint::optim {
namespace {

void check_least(const char* name, const char* what, std::int64_t value, std::int64_t least) {
  ADJOINT_CHECK(value >= least, "{}: {} must be at least {}; got {}", name, what, least, value);
}

void check_not_negative(const char* name, const char* what, double value) {
  ADJOINT_CHECK(std::isfinite(value) && value >= 0.0, "{}: {} must be finite and not negative; got {}", name, what,
                value);
}

void check_positive(const char* name, const char* what, double value) {
  ADJOINT_CHECK(std::isfinite(value) && value > 0.0, "{}: {} must be finite and above 0; got {}", name, what, value);
}

void check_share(const char* name, const char* what, double value) {
  ADJOINT_CHECK(value >= 0.0 && value <= 1.0, "{}: {} must be between 0 and 1; got {}", name, what, value);
}

double share(std::int64_t t, std::int64_t total) {
  return static_cast<double>(std::min(t, total)) / static_cast<double>(total);
}

double cosine(double from, double to, double done) {
  return to + (from - to) * (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
}

}  // namespace

void ConstantLROptions::check() const {
  check_share(kName, "factor", factor);
  check_least(kName, "total_iters", total_iters, 0);
}
double ConstantLROptions::lr(double base_lr, std::int64_t t) const {
  return t < total_iters ? base_lr * factor : base_lr;
}

void LinearLROptions::check() const {
  check_share(kName, "start_factor", start_factor);
  check_share(kName, "end_factor", end_factor);
  check_least(kName, "total_iters", total_iters, 1);
}
double LinearLROptions::lr(double base_lr, std::int64_t t) const {
  return base_lr * (start_factor + (end_factor - start_factor) * share(t, total_iters));
}

void StepLROptions::check() const {
  check_least(kName, "step_size", step_size, 1);
  check_not_negative(kName, "gamma", gamma);
}
double StepLROptions::lr(double base_lr, std::int64_t t) const {
  const std::int64_t drops = t / step_size;
  return base_lr * std::pow(gamma, static_cast<double>(drops));
}

void MultiStepLROptions::check() const {
  for (const std::int64_t milestone : milestones) check_least(kName, "a milestone", milestone, 0);
  check_not_negative(kName, "gamma", gamma);
}
double MultiStepLROptions::lr(double base_lr, std::int64_t t) const {
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [&](std::int64_t m) { return m <= t; });
  return base_lr * std::pow(gamma, static_cast<double>(passed));
}

void ExponentialLROptions::check() const { check_positive(kName, "gamma", gamma); }
double ExponentialLROptions::lr(double base_lr, std::int64_t t) const {
  return base_lr * std::pow(gamma, static_cast<double>(t));
}

void PolynomialLROptions::check() const {
  check_least(kName, "total_iters", total_iters, 1);
  check_not_negative(kName, "power", power);
}
double PolynomialLROptions::lr(double base_lr, std::int64_t t) const {
  return base_lr * std::pow(1.0 - share(t, total_iters), power);
}

void CosineAnnealingLROptions::check() const {
  check_least(kName, "T_max", T_max, 1);
  check_not_negative(kName, "eta_min", eta_min);
}
double CosineAnnealingLROptions::lr(double base_lr, std::int64_t t) const {
  return cosine(base_lr, eta_min, static_cast<double>(t) / static_cast<double>(T_max));
}

void CosineAnnealingWarmRestartsOptions::check() const {
  check_least(kName, "T_0", T_0, 1);
  check_least(kName, "T_mult", T_mult, 1);
  check_not_negative(kName, "eta_min", eta_min);
}
double CosineAnnealingWarmRestartsOptions::lr(double base_lr, std::int64_t t) const {
  std::int64_t period = T_0;
  if (T_mult == 1) t %= period;
  while (t >= period) {
    t -= period;
    // A period beyond every count of steps is equivalent to the exact one.
    const bool fits = period <= std::numeric_limits<std::int64_t>::max() / T_mult;
    period = fits ? period * T_mult : std::numeric_limits<std::int64_t>::max();
  }
  return cosine(base_lr, eta_min, static_cast<double>(t) / static_cast<double>(period));
}

void OneCycleLROptions::check() const {
  check_not_negative(kName, "max_lr", max_lr);
  check_least(kName, "total_steps", total_steps, 1);
  check_share(kName, "pct_start", pct_start);
  check_enumerator(kName, "Anneal", anneal_strategy, Anneal::kLinear);
  check_positive(kName, "div_factor", div_factor);
  check_positive(kName, "final_div_factor", final_div_factor);
  for (const auto& [what, value] : {std::pair{"base_momentum", base_momentum}, {"max_momentum", max_momentum}}) {
    ADJOINT_CHECK(value > 0.0 && value < 1.0, "{}: {} must be above 0 and below 1; got {}", kName, what, value);
  }
}

namespace {

// A quantity that is initially `start`, `peak` after pct_start of the steps, and finally `end`, with PyTorch's ends of
// the phases.
double one_cycle(const OneCycleLROptions& o, std::int64_t t, double start, double peak, double end) {
  ADJOINT_CHECK(t <= o.total_steps, "OneCycleLR: there must be at most total_steps = {} steps; got step {}",
                o.total_steps, t);
  struct Phase {
    double end_step, from, to;
  };
  const auto steps = static_cast<double>(o.total_steps);
  const std::array<Phase, 3> phases{Phase{o.pct_start * steps - 1.0, start, peak},
                                    Phase{2.0 * o.pct_start * steps - 2.0, peak, start},
                                    Phase{steps - 1.0, o.three_phase ? start : peak, end}};
  const auto at = static_cast<double>(t);
  double begin = 0.0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    if (i == 1 && !o.three_phase) continue;
    if (at <= phase.end_step || i + 1 == phases.size()) {
      const double length = phase.end_step - begin;
      const double done = length == 0.0 ? 1.0 : std::min((at - begin) / length, 1.0);
      if (o.anneal_strategy == Anneal::kCos) return cosine(phase.from, phase.to, done);
      return (phase.to - phase.from) * done + phase.from;
    }
    begin = phase.end_step;
  }
  return end;
}

}  // namespace

double OneCycleLROptions::lr(double, std::int64_t t) const {
  const double start = max_lr / div_factor;
  return one_cycle(*this, t, start, max_lr, start / final_div_factor);
}
std::optional<double> OneCycleLROptions::momentum(std::int64_t t) const {
  if (!cycle_momentum) return {};
  return one_cycle(*this, t, max_momentum, base_momentum, max_momentum);
}

void LambdaLROptions::check() const {
  ADJOINT_CHECK(lr_lambda != nullptr, "{}: lr_lambda must be a function; got none", kName);
}
double LambdaLROptions::lr(double base_lr, std::int64_t t) const { return base_lr * lr_lambda(t); }

void SequentialLROptions::check() const {
  ADJOINT_CHECK(!schedules.empty() && milestones.size() + 1 == schedules.size(),
                "{}: there must be one milestone fewer than schedules; got {} and {}", kName, milestones.size(),
                schedules.size());
  std::int64_t last = 0;
  for (const std::int64_t milestone : milestones) {
    ADJOINT_CHECK(milestone > last, "{}: milestones must be above 0 and ascend; got {} behind {}", kName, milestone,
                  last);
    last = milestone;
  }
}

namespace {

// f(the curve at step t, the steps since that curve began).
template <class F>
auto in_sequence(const SequentialLROptions& o, std::int64_t t, const F& f) {
  const auto next = std::upper_bound(o.milestones.begin(), o.milestones.end(), t);
  const std::int64_t begin = next == o.milestones.begin() ? 0 : *(next - 1);
  return f(o.schedules[static_cast<std::size_t>(next - o.milestones.begin())], t - begin);
}

}  // namespace

double SequentialLROptions::lr(double base_lr, std::int64_t t) const {
  return in_sequence(*this, t, [&](const Curve& curve, std::int64_t since) { return curve.lr(base_lr, since); });
}
std::optional<double> SequentialLROptions::momentum(std::int64_t t) const {
  return in_sequence(*this, t, [](const Curve& curve, std::int64_t since) { return curve.momentum(since); });
}

void ChainedSchedulerOptions::check() const {
  ADJOINT_CHECK(!schedules.empty(), "{}: there must be a schedule; got none", kName);
}
double ChainedSchedulerOptions::lr(double base_lr, std::int64_t t) const {
  for (const Curve& curve : schedules) base_lr = curve.lr(base_lr, t);
  return base_lr;
}
std::optional<double> ChainedSchedulerOptions::momentum(std::int64_t t) const {
  std::optional<double> found;
  for (const Curve& curve : schedules) {
    if (const auto own = curve.momentum(t)) found = own;
  }
  return found;
}

}  // namespace adjoint::optim

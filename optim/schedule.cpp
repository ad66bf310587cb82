#include <adjoint/optim/schedule.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/optim/saved_state.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace adjoint::optim {

void Warmup::check(const char* schedule) const {
  ADJOINT_CHECK(steps >= 0, "{}: warmup.steps must not be negative; got {}", schedule, steps);
  ADJOINT_CHECK(start_factor >= 0.0 && start_factor <= 1.0, "{}: warmup.start_factor must be between 0 and 1; got {}",
                schedule, start_factor);
}

double Warmup::factor(std::int64_t t) const {
  const double done = static_cast<double>(t) / static_cast<double>(steps);
  return start_factor + (1.0 - start_factor) * done;
}

double Curve::lr(double base_lr, std::int64_t t) const {
  return t < warmup_.steps ? base_lr * warmup_.factor(t) : lr_(base_lr, t - warmup_.steps);
}

std::optional<double> Curve::momentum(std::int64_t t) const {
  if (!momentum_) return {};
  return momentum_(std::max<std::int64_t>(t - warmup_.steps, 0));
}

namespace detail {

ScheduleHold::ScheduleHold(const std::string& name, Optimizer& optimizer)
    : name_(std::make_shared<const std::string>(name)), optimizer_(optimizer) {
  optimizer.check_not_moved_from(name.c_str());
  const auto other = optimizer.schedule_.name_.lock();
  ADJOINT_CHECK(
      other == nullptr,
      "{}: an optimiser must have one schedule; got {} with a {} that lives; make one of both by SequentialLR "
      "or ChainedScheduler",
      name, optimizer.name_, other == nullptr ? "" : *other);
  optimizer.schedule_.name_ = name_;
}

}  // namespace detail

Schedule::Schedule(Optimizer& optimizer, std::vector<Curve> curves)
    : hold_(curves.size() == 1 ? curves[0].name() : "Schedule", optimizer), curves_(std::move(curves)) {
  check_curves();
  for (std::size_t g = 0; g < optimizer.num_groups(); ++g) {
    ADJOINT_CHECK(!curve(g).momentum(0).has_value() || optimizer.momentum(g).has_value(),
                  "{}: the optimiser must keep a momentum or betas to cycle; got none in its group {}; set "
                  "cycle_momentum to false",
                  hold_.name(), g);
  }
  move_to(0, {});
}

Schedule::~Schedule() = default;

void Schedule::check_curves() const {
  const std::size_t groups = hold_.optimizer().num_groups();
  ADJOINT_CHECK(curves_.size() == 1 || curves_.size() == groups,
                "{}: there must be one curve, or one for each of the {} groups; got {}", hold_.name(), groups,
                curves_.size());
}

void Schedule::step() {
  move_to(last_epoch_ + 1, base_lrs_);
  if (adjoint::detail::StepCapture* const capture = adjoint::detail::StepCapture::current()) {
    capture->valid_while([this] {
      // A schedule that has ended throws here, before any part of the replay counts.
      for (std::size_t g = 0; g < base_lrs_.size(); ++g) curve(g).lr(base_lrs_[g], last_epoch_ + 1);
      return true;
    });
    capture->on_replay([this] { step(); }, [this] { move_to(last_epoch_ - 1, base_lrs_); });
  }
}

void Schedule::move_to(std::int64_t last_epoch, std::vector<double> base_lrs) {
  Optimizer& optimizer = hold_.optimizer();
  check_curves();
  std::vector<double> lrs;
  std::vector<std::optional<double>> momenta;
  for (std::size_t g = 0; g < optimizer.num_groups(); ++g) {
    if (g == base_lrs.size()) base_lrs.push_back(optimizer.lr(g));
    lrs.push_back(curve(g).lr(base_lrs[g], last_epoch));
    momenta.push_back(curve(g).momentum(last_epoch));
  }
  {
    const OpScope scope(hold_.name().c_str());
    optimizer.set_lrs(lrs);
  }
  for (std::size_t g = 0; g < momenta.size(); ++g) {
    if (momenta[g].has_value() && optimizer.momentum(g).has_value()) optimizer.set_momentum(*momenta[g], g);
  }
  last_epoch_ = last_epoch;
  base_lrs_ = std::move(base_lrs);
}

std::vector<double> Schedule::get_last_lr() const {
  std::vector<double> rates;
  for (const auto& group : hold_.optimizer().param_groups()) rates.push_back(group.lr());
  return rates;
}

std::vector<double> Schedule::preview(std::int64_t n, std::size_t group) const {
  ADJOINT_CHECK(n >= 0, "{}: preview's n must not be negative; got {}", hold_.name(), n);
  ADJOINT_CHECK(group < base_lrs_.size(), "{}: preview's group must be one of {}, counted from 0; got {}", hold_.name(),
                base_lrs_.size(), group);
  std::vector<double> rates;
  for (std::int64_t t = 0; t < n; ++t) rates.push_back(curve(group).lr(base_lrs_[group], last_epoch_ + t));
  return rates;
}

NamedTensors Schedule::state_dict() const {
  const Shape shape = base_lrs_.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(base_lrs_.size())};
  return {{"last_epoch", Tensor::from_vector<std::int64_t>({last_epoch_}, {}, {.dtype = kInt64})},
          {"base_lr", Tensor::from_vector(base_lrs_, shape, {.dtype = kFloat64})}};
}

void Schedule::load_state_dict(const NamedTensors& state) {
  const std::string& name = hold_.name();
  std::int64_t last_epoch = -1;
  std::vector<double> base_lrs;
  for (const auto& [key, tensor] : state) {
    const bool counts = key == "last_epoch";
    const auto numel = static_cast<std::int64_t>(counts ? 1 : hold_.optimizer().num_groups());
    ADJOINT_CHECK(tensor.defined() && tensor.numel() == numel,
                  "load_state_dict ({}): every tensor must be one number, base_lr one for each group; got {} as '{}'",
                  name, tensor.defined() ? to_string(tensor.shape()) : "Tensor{}", key);
    if (counts && tensor.dtype() == kInt64) {
      last_epoch = tensor.item<std::int64_t>();
    } else if (key == "base_lr" && tensor.dtype() == kFloat64) {
      base_lrs = tensor.to_vector<double>();
    } else {
      fail("load_state_dict ({}): the state must be an int64 last_epoch and a float64 base_lr; got '{}' of {}", name,
           key, tensor.dtype());
    }
  }
  bool fits = last_epoch >= 0 && last_epoch < kMostSteps && !base_lrs.empty();
  for (const double base_lr : base_lrs) fits = fits && std::isfinite(base_lr) && base_lr >= 0.0;
  ADJOINT_CHECK(fits,
                "load_state_dict ({}): the state must hold last_epoch and base_lr, neither negative; got {} names",
                name, state.size());
  move_to(last_epoch, std::move(base_lrs));
}

}  // namespace adjoint::optim

#include <adjoint/optim/schedule.h>

#include <adjoint/core/check.h>

#include <cmath>
#include <numbers>

namespace adjoint::optim {

Schedule::Schedule(const char* name, Optimizer& optimizer, const Warmup& warmup)
    : name_(name), optimizer_(optimizer), warmup_(warmup), base_lr_(optimizer.lr()) {
  ADJOINT_CHECK(warmup.steps >= 0, "{}: warmup.steps must not be negative; got {}", name, warmup.steps);
  ADJOINT_CHECK(warmup.start_factor >= 0.0 && warmup.start_factor <= 1.0,
                "{}: warmup.start_factor must be between 0 and 1; got {}", name, warmup.start_factor);
}

Schedule::~Schedule() = default;

void Schedule::step() { move_to(last_epoch_ + 1, base_lr_); }

void Schedule::apply() { move_to(last_epoch_, base_lr_); }

void Schedule::move_to(std::int64_t last_epoch, double base_lr) {
  const std::int64_t t = last_epoch - warmup_.steps;
  if (t >= 0) {
    optimizer_.set_lr(rate(base_lr, t));
  } else {
    const double done = static_cast<double>(last_epoch) / static_cast<double>(warmup_.steps);
    optimizer_.set_lr(base_lr * (warmup_.start_factor + (1.0 - warmup_.start_factor) * done));
  }
  last_epoch_ = last_epoch;
  base_lr_ = base_lr;
}

NamedTensors Schedule::state_dict() const {
  return {{"last_epoch", Tensor::from_vector<std::int64_t>({last_epoch_}, {}, {.dtype = kInt64})},
          {"base_lr", Tensor::scalar(base_lr_, {.dtype = kFloat64})}};
}

void Schedule::load_state_dict(const NamedTensors& state) {
  std::int64_t last_epoch = -1;
  double base_lr = -1.0;
  for (const auto& [name, tensor] : state) {
    ADJOINT_CHECK(tensor.defined() && tensor.numel() == 1,
                  "load_state_dict ({}): every tensor must be one number; got {} as '{}'", name_,
                  tensor.defined() ? to_string(tensor.shape()) : "Tensor{}", name);
    if (name == "last_epoch" && tensor.dtype() == kInt64) {
      last_epoch = tensor.item<std::int64_t>();
    } else if (name == "base_lr" && tensor.dtype() == kFloat64) {
      base_lr = tensor.item<double>();
    } else {
      fail("load_state_dict ({}): the state must be an int64 last_epoch and a float64 base_lr; got '{}' of {}", name_,
           name, tensor.dtype());
    }
  }
  ADJOINT_CHECK(last_epoch >= 0 && std::isfinite(base_lr) && base_lr >= 0.0,
                "load_state_dict ({}): the state must hold last_epoch and base_lr, neither negative; got {} names",
                name_, state.size());
  move_to(last_epoch, base_lr);
}

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options)
    : Schedule("StepLR", optimizer, options.warmup), options_(options) {
  ADJOINT_CHECK(options.step_size >= 1, "StepLR: step_size must be at least 1; got {}", options.step_size);
  ADJOINT_CHECK(std::isfinite(options.gamma) && options.gamma >= 0.0,
                "StepLR: gamma must be finite and not negative; got {}", options.gamma);
  apply();
}

double StepLR::rate(double base_lr, std::int64_t t) const {
  return base_lr * std::pow(options_.gamma, static_cast<double>(t / options_.step_size));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : Schedule("CosineAnnealingLR", optimizer, options.warmup), options_(options) {
  ADJOINT_CHECK(options.T_max >= 1, "CosineAnnealingLR: T_max must be at least 1; got {}", options.T_max);
  ADJOINT_CHECK(std::isfinite(options.eta_min) && options.eta_min >= 0.0,
                "CosineAnnealingLR: eta_min must be finite and not negative; got {}", options.eta_min);
  apply();
}

double CosineAnnealingLR::rate(double base_lr, std::int64_t t) const {
  const double phase = std::numbers::pi * static_cast<double>(t) / static_cast<double>(options_.T_max);
  return options_.eta_min + (base_lr - options_.eta_min) * (1.0 + std::cos(phase)) / 2.0;
}

}  // namespace adjoint::optim

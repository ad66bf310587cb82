#include <adjoint/optim/plateau.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/optim/saved_state.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace adjoint::optim {
namespace {

constexpr const char* kName = "ReduceLROnPlateau";

const ReduceLROnPlateauOptions& checked(const ReduceLROnPlateauOptions& o) {
  check_enumerator(kName, "PlateauMode", o.mode, PlateauMode::kMax);
  check_enumerator(kName, "ThresholdMode", o.threshold_mode, ThresholdMode::kAbs);
  ADJOINT_CHECK(o.factor >= 0.0 && o.factor < 1.0, "{}: factor must be in [0, 1); got {}", kName, o.factor);
  for (const auto& [what, value] : {std::pair{"patience", o.patience}, {"cooldown", o.cooldown}}) {
    ADJOINT_CHECK(value >= 0, "{}: {} must not be negative; got {}", kName, what, value);
  }
  for (const auto& [what, value] : {std::pair{"threshold", o.threshold}, {"min_lr", o.min_lr}, {"eps", o.eps}}) {
    ADJOINT_CHECK(std::isfinite(value) && value >= 0.0, "{}: {} must be finite and not negative; got {}", kName, what,
                  value);
  }
  o.warmup.check(kName);
  return o;
}

}  // namespace

PlateauMode enumerator(std::string_view name, PlateauMode) {
  constexpr std::array<const char*, 2> kNames{"min", "max"};
  return static_cast<PlateauMode>(place_of("ReduceLROnPlateau: mode", name, kNames));
}

ThresholdMode enumerator(std::string_view name, ThresholdMode) {
  constexpr std::array<const char*, 2> kNames{"rel", "abs"};
  return static_cast<ThresholdMode>(place_of("ReduceLROnPlateau: threshold_mode", name, kNames));
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : options_(checked(options)), hold_(kName, optimizer) {
  const double infinity = std::numeric_limits<double>::infinity();
  state_.best = options.mode == PlateauMode::kMin ? infinity : -infinity;
  for (std::size_t g = 0; g < optimizer.num_groups(); ++g) base_lrs_.push_back(optimizer.lr(g));
  if (options.warmup.steps > 0) warm_up();
}

void ReduceLROnPlateau::warm_up() {
  const std::int64_t t = state_.last_epoch;
  const double factor = t < options_.warmup.steps ? options_.warmup.factor(t) : 1.0;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) hold_.optimizer().set_lr(base_lrs_[g] * factor, g);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double sign = options_.mode == PlateauMode::kMin ? -1.0 : 1.0;
  const double bound = options_.threshold_mode == ThresholdMode::kRel ? state_.best * (1.0 + sign * options_.threshold)
                                                                      : state_.best + sign * options_.threshold;
  return sign < 0.0 ? metric < bound : metric > bound;
}

void ReduceLROnPlateau::step(double metric) {
  adjoint::detail::StepCapture::refuse_waiting(kName);  // the metric is on the host
  if (++state_.last_epoch <= options_.warmup.steps) return warm_up();
  if (is_better(metric)) {
    state_.best = metric;
    state_.num_bad_epochs = 0;
  } else {
    ++state_.num_bad_epochs;
  }
  if (state_.cooldown_counter > 0) {
    --state_.cooldown_counter;
    state_.num_bad_epochs = 0;
  }
  if (state_.num_bad_epochs > options_.patience) {
    reduce();
    state_.cooldown_counter = options_.cooldown;
    state_.num_bad_epochs = 0;
  }
}

void ReduceLROnPlateau::reduce() {
  Optimizer& optimizer = hold_.optimizer();
  for (std::size_t g = 0; g < optimizer.num_groups(); ++g) {
    const double old = optimizer.lr(g), reduced = std::max(old * options_.factor, options_.min_lr);
    if (old - reduced > options_.eps) optimizer.set_lr(reduced, g);
  }
}

NamedTensors ReduceLROnPlateau::state_dict() const {
  const auto count = [](std::int64_t value) {
    return Tensor::from_vector<std::int64_t>({value}, {}, {.dtype = kInt64});
  };
  return {{"last_epoch", count(state_.last_epoch)},
          {"num_bad_epochs", count(state_.num_bad_epochs)},
          {"cooldown_counter", count(state_.cooldown_counter)},
          {"best", Tensor::scalar(state_.best, {.dtype = kFloat64})},
          {"base_lr",
           Tensor::from_vector(base_lrs_, {static_cast<std::int64_t>(base_lrs_.size())}, {.dtype = kFloat64})}};
}

void ReduceLROnPlateau::load_state_dict(const NamedTensors& state) {
  State loaded{};
  const std::array<std::pair<const char*, std::int64_t*>, 3> counts{{{"last_epoch", &loaded.last_epoch},
                                                                     {"num_bad_epochs", &loaded.num_bad_epochs},
                                                                     {"cooldown_counter", &loaded.cooldown_counter}}};
  const auto take = [&](const std::string& name, DType dtype, std::size_t numel = 1) {
    const auto found = std::find_if(state.begin(), state.end(), [&](const auto& entry) { return entry.first == name; });
    ADJOINT_CHECK(found != state.end() && found->second.defined() &&
                      found->second.numel() == static_cast<std::int64_t>(numel) && found->second.dtype() == dtype,
                  "load_state_dict ({}): the state must hold {} {} as '{}'; got {}", kName, numel, dtype, name,
                  found == state.end()       ? "no such name"
                  : !found->second.defined() ? "Tensor{}"
                                             : to_string(found->second.dtype()) + to_string(found->second.shape()));
    return found->second;
  };
  ADJOINT_CHECK(state.size() == 5, "load_state_dict ({}): the state must hold 5 names; got {}", kName, state.size());
  for (const auto& [name, value] : counts) {
    *value = take(name, kInt64).item<std::int64_t>();
    ADJOINT_CHECK(*value >= 0 && *value < kMostSteps, "load_state_dict ({}): '{}' must {}; got {}", kName, name,
                  *value < 0 ? "not be negative" : "be below 2^62", *value);
  }
  loaded.best = take("best", kFloat64).item<double>();
  ADJOINT_CHECK(!std::isnan(loaded.best), "load_state_dict ({}): 'best' must be a number; got {}", kName, loaded.best);
  std::vector<double> base_lrs = take("base_lr", kFloat64, base_lrs_.size()).to_vector<double>();
  for (const double base_lr : base_lrs) {
    ADJOINT_CHECK(std::isfinite(base_lr) && base_lr >= 0.0,
                  "load_state_dict ({}): 'base_lr' must be finite and not negative; got {}", kName, base_lr);
  }
  base_lrs_ = std::move(base_lrs);
  state_ = loaded;
}

}  // namespace adjoint::optim

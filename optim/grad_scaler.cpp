#include <adjoint/optim/grad_scaler.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/gate.h>
#include <adjoint/optim/gradients.h>
#include <adjoint/optim/saved_state.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace adjoint::optim {
namespace {

void check_scale(const char* op, const char* name, double scale) {
  const auto rounded = static_cast<float>(scale);
  ADJOINT_CHECK(rounded > 0.0F && std::isfinite(rounded), "{}: {} must be above 0 and finite in float32; got {}", op,
                name, scale);
}

void check_options(const char* op, const GradScalerOptions& o) {
  check_scale(op, "init_scale", o.init_scale);
  ADJOINT_CHECK(std::isfinite(o.growth_factor) && o.growth_factor > 1.0,
                "{}: growth_factor must be above 1 and finite; got {}", op, o.growth_factor);
  ADJOINT_CHECK(o.backoff_factor > 0.0 && o.backoff_factor < 1.0,
                "{}: backoff_factor must be above 0 and below 1; got {}", op, o.backoff_factor);
  ADJOINT_CHECK(o.growth_interval >= 1, "{}: growth_interval must be at least 1; got {}", op, o.growth_interval);
}

Tensor take_scalar(SavedState& saved, const char* name, DType dtype) {
  Tensor tensor = saved.take(name);
  ADJOINT_CHECK(tensor.numel() == 1 && tensor.dtype() == dtype,
                "load_state_dict (GradScaler): '{}' must be one {}; got {} {}", name, dtype, tensor.dtype(),
                tensor.shape());
  return tensor;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  check_options("GradScaler", options);
  const MemoryScope scope(MemoryCategory::kOptimizer);
  scale_ = Tensor::scalar(options.init_scale, {.dtype = kFloat32, .device = kCPU});
  growth_tracker_ = Tensor::scalar(0, {.dtype = kInt64, .device = kCPU});
}

void GradScaler::check_scaled(const char* op) const {
  ADJOINT_CHECK(scaled_, "{}: a loss must be scaled before; got no call of scale()", op);
}

Tensor GradScaler::scale(const Tensor& loss) {
  check_defined("GradScaler::scale", "loss", loss);
  ADJOINT_CHECK(is_floating_point(loss.dtype()), "GradScaler::scale: loss must be floating point; got {}",
                loss.dtype());
  if (!options_.enabled) return loss;
  if (!scaled_) {
    const PauseTape pause;
    const MemoryScope scope(MemoryCategory::kOptimizer);
    Tensor scale = scale_.to(loss.device());
    growth_tracker_ = growth_tracker_.to(loss.device());
    scale_ = std::move(scale);
    scaled_ = true;
  }
  const bool half = loss.dtype() == kFloat16 || loss.dtype() == kBFloat16;
  const Tensor wide = half ? loss.to(kFloat32) : loss;
  // A copy, because the tape keeps it and update() writes to the scale.
  const Tensor factor = [&] {
    const PauseTape pause;
    return scale_.clone().to(wide.dtype()).to(loss.device());
  }();
  return wide * factor;
}

// Unscales the gradients of the optimiser's parameters.
GradScaler::State GradScaler::unscaled(const char* op, const Optimizer& optimizer) const {
  std::vector<std::pair<Device, std::vector<Tensor>>> by_device;
  for (const Tensor& parameter : optimizer.parameters()) {
    if (!parameter.grad().defined()) continue;
    const Device device = parameter.grad().device();
    const auto same = [&](const auto& entry) { return entry.first == device; };
    auto found = std::find_if(by_device.begin(), by_device.end(), same);
    if (found == by_device.end()) found = by_device.insert(found, {device, {}});
    found->second.push_back(parameter);
  }
  // Does everything that can fail before anything changes.
  struct Work {
    Device device;
    Gradients gradients;
    Tensor scale;
    float* found_inf;
  };
  State state{.optimizer = &optimizer};
  std::vector<Work> works;
  for (const auto& [device, parameters] : by_device) {
    state.found_inf.push_back(Tensor::zeros({}, {.dtype = kFloat32, .device = device}));
    works.push_back(
        {device, Gradients(op, parameters), scale_.to(device), state.found_inf.back().mutable_data<float>()});
  }
  for (Work& work : works) {
    work.gradients.rewrite([&](const std::vector<Piece>& pieces) {
      const auto* const scale = work.scale.data<float>();
      if (work.device.is_cpu()) return cpu::unscale(pieces, scale, work.found_inf);
#if defined(ADJOINT_WITH_CUDA)
      cuda::unscale(pieces, scale, work.found_inf, work.device.index);
#endif
    });
  }
  return state;
}

void GradScaler::unscale_(const Optimizer& optimizer) {
  if (!options_.enabled) return;
  check_scaled("GradScaler::unscale_");
  const State* const found = state_of(optimizer);
  ADJOINT_CHECK(found == nullptr || !found->stepped,
                "GradScaler::unscale_: it must come before step(); got a call after it");
  ADJOINT_CHECK(found == nullptr,
                "GradScaler::unscale_: it can be called once for an optimiser between updates; got a second call");
  const PauseTape pause;
  note_unscaled("GradScaler::unscale_", optimizer);
}

GradScaler::State* GradScaler::state_of(const Optimizer& optimizer) {
  const auto found =
      std::find_if(states_.begin(), states_.end(), [&](const State& state) { return state.optimizer == &optimizer; });
  return found == states_.end() ? nullptr : &*found;
}

// Allocates nothing after the gradients have changed.
GradScaler::State& GradScaler::note_unscaled(const char* op, const Optimizer& optimizer) {
  states_.reserve(states_.size() + 1);
  return states_.emplace_back(unscaled(op, optimizer));
}

namespace {

// Combines the flags of all devices, on this one.
Tensor combined(const std::vector<Tensor>& found_inf, Device device) {
  Tensor sum;
  for (const Tensor& own : found_inf) {
    const Tensor moved = own.to(device);
    sum = sum.defined() ? sum + moved : moved;
  }
  return sum;
}

}  // namespace

// The optimiser's kernels read scale, flag and norm. If gradients were already unscaled, the flags from then are passed
// on.
GradScaler::State GradScaler::step_fused(Optimizer& optimizer, const StepOptions& options, const State* unscaled,
                                         Tensor& norm) const {
  std::vector<GateTensors> gates =
      measure("GradScaler::step", optimizer.parameters(), unscaled == nullptr ? scale_ : Tensor{}, options.max_norm);
  State state{.optimizer = &optimizer, .stepped = true};
  if (unscaled != nullptr) state.found_inf = unscaled->found_inf;
  for (const GateTensors& gate : gates) {
    if (unscaled == nullptr) state.found_inf.push_back(gate.found_inf);
    norm = gate.norm;
  }
  for (GateTensors& gate : gates) gate.found_inf = combined(state.found_inf, gate.device);
  optimizer.apply(gates);
  return state;
}

Tensor GradScaler::step(Optimizer& optimizer, const StepOptions& options) {
  if (!options_.enabled) return optimizer.step(options);
  check_scaled("GradScaler::step");
  const PauseTape pause;
  State* const found = state_of(optimizer);
  ADJOINT_CHECK(found == nullptr || !found->stepped,
                "GradScaler::step: it can be called once for an optimiser between updates; got a second call");
  const std::vector<Tensor>& parameters = optimizer.parameters();
  ADJOINT_CHECK(std::any_of(parameters.begin(), parameters.end(), [](const Tensor& p) { return p.grad().defined(); }),
                "GradScaler::step: a parameter must have a gradient; got none of {}", parameters.size());
  Tensor norm;
  if (optimizer.is_fused()) {
    if (found != nullptr) {
      *found = step_fused(optimizer, options, found, norm);
    } else {
      states_.reserve(states_.size() + 1);
      states_.push_back(step_fused(optimizer, options, nullptr, norm));
    }
    return norm;
  }
  State& state = found == nullptr ? note_unscaled("GradScaler::step", optimizer) : *found;
  const bool finite = std::all_of(state.found_inf.begin(), state.found_inf.end(),
                                  [](const Tensor& found_inf) { return found_inf.item<float>() == 0.0F; });
  if (finite) {
    norm = optimizer.step(options);
  } else if (options.max_norm) {
    norm = clip_grad_norm_(parameters, *options.max_norm);
  }
  state.stepped = true;
  return norm;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  check_scaled("GradScaler::update");
  const PauseTape pause;
  std::vector<Tensor> all;
  for (const State& state : states_) all.insert(all.end(), state.found_inf.begin(), state.found_inf.end());
  const Tensor found = combined(all, scale_.device());
  ADJOINT_CHECK(found.defined(),
                "GradScaler::update: gradients must be unscaled before, by unscale_() or step(); got none");
  if (adjoint::detail::StepCapture* const capture = adjoint::detail::StepCapture::current()) {
    capture->valid_while([this, loads = loads_] { return loads == loads_; });
  }
  const ScaleRule rule{options_.growth_factor, options_.backoff_factor, options_.growth_interval};
  const Device device = scale_.device();
  auto* const scale = scale_.mutable_data<float>();
  auto* const tracker = growth_tracker_.mutable_data<std::int64_t>();
  if (device.is_cpu()) cpu::update_scale(rule, scale, tracker, found.data<float>());
#if defined(ADJOINT_WITH_CUDA)
  if (device.is_cuda()) cuda::update_scale(rule, scale, tracker, found.data<float>(), device.index);
#endif
  states_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  check_scaled("GradScaler::update");
  check_scale("GradScaler::update", "new_scale", new_scale);
  const PauseTape pause;
  scale_.fill_(new_scale);
  states_.clear();
}

double GradScaler::get_scale() const { return options_.enabled ? scale_.item<float>() : 1.0; }

NamedTensors GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  return {{"scale", scale_},
          {"growth_factor", Tensor::scalar(options_.growth_factor, {.dtype = kFloat64})},
          {"backoff_factor", Tensor::scalar(options_.backoff_factor, {.dtype = kFloat64})},
          {"growth_interval", Tensor::from_vector<std::int64_t>({options_.growth_interval}, {}, {.dtype = kInt64})},
          {"_growth_tracker", growth_tracker_}};
}

void GradScaler::load_state_dict(const NamedTensors& state) {
  if (!options_.enabled) return;
  const char* const op = "load_state_dict (GradScaler)";
  ADJOINT_CHECK(states_.empty(), "{}: it must come after update(); got {} optimisers that were unscaled since", op,
                states_.size());
  const PauseTape pause;
  SavedState saved("GradScaler", state);
  GradScalerOptions options = options_;
  options.init_scale = take_scalar(saved, "scale", kFloat32).item<float>();
  options.growth_factor = take_scalar(saved, "growth_factor", kFloat64).item<double>();
  options.backoff_factor = take_scalar(saved, "backoff_factor", kFloat64).item<double>();
  options.growth_interval = saved.take_count("growth_interval", 1);
  const std::int64_t tracker = saved.take_count("_growth_tracker", 0);
  saved.check_taken("scaler's values");
  check_options(op, options);
  options_ = options;
  ++loads_;
  scale_.fill_(options.init_scale);
  growth_tracker_.fill_(static_cast<double>(tracker));
}

}  // namespace adjoint::optim

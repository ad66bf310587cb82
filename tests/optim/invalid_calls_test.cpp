// Random calls of the optimisers: no crash, and every error names the function called.

#include <adjoint/optim/clip.h>
#include <adjoint/optim/ema.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/optim/lbfgs.h>
#include <adjoint/optim/muon.h>
#include <adjoint/optim/plateau.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/invalid_calls.h>

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace adjoint::testing {
namespace {

using A = Arguments&;

NamedTensors state(A a, const std::vector<std::string>& names) {
  NamedTensors state;
  for (const std::string& name : names) {
    if (!a.chance(4)) state.emplace_back(name, a.chance(3) ? a.tensor() : Tensor::scalar(1, {.dtype = kInt64}));
  }
  return state;
}

std::vector<Tensor> with_gradients(A a) {
  std::vector<Tensor> parameters = a.tensors();
  for (Tensor& parameter : parameters) {
    if (a.chance(2) || !parameter.defined()) continue;
    parameter = parameter.detach().clone();
    parameter.set_grad(Tensor::ones(parameter.shape(), parameter.options()));
  }
  return parameters;
}

void draw(A a, double& option) { option = a.scalar(); }
void draw(A a, bool& option) { option = a.chance(2); }
void draw(A a, std::array<double, 2>& option) { option = {a.scalar(), a.scalar()}; }

// With some options drawn, and the others as they are by default.
template <class Optimiser>
void construct(A a) {
  optim::OptionsOf<Optimiser> options;
  optim::visit_options(options, [&](const char*, auto& option) {
    if (a.chance(2)) draw(a, option);
  });
  Optimiser(a.tensors(), options);
}

TEST(InvalidCalls, OfOptimisers) {
  Tensor weight = Tensor::ones({2, 3});
  optim::SGD sgd({weight}, {.lr = 0.1, .momentum = 0.9});
  optim::StepLR decay(sgd, {.step_size = 2});
  optim::SGD other({weight});
  std::vector<Call> table{
      {"SGD", [&](A a) { sgd.set_lr(a.scalar()); }},
      {"Muon",
       [](A a) { optim::Muon(a.tensors(), {.lr = a.scalar(), .momentum = a.scalar(), .ns_steps = a.integer()}); }},
      {"LBFGS",
       [](A a) {
         optim::LBFGS(a.tensors(), {.lr = a.scalar(), .max_iter = a.integer(), .history_size = a.integer()});
       }},
      {"SGD", [&](A a) { sgd.set_lr(a.scalar(), static_cast<std::size_t>(a.integer())); }},
      {"EMA", [](A a) { optim::EMA(a.tensors(), {.decay = a.scalar()}); }},
      {"GradScaler",
       [](A a) {
         optim::GradScaler scaler({.init_scale = a.scalar(),
                                   .growth_factor = a.scalar(),
                                   .backoff_factor = a.scalar(),
                                   .growth_interval = a.integer()});
       }},
      {"GradScaler",
       [](A a) {
         optim::GradScaler scaler;
         if (!a.chance(4)) static_cast<void>(scaler.scale(a.tensor()));
         scaler.update(a.scalar());
       }},
      {"load_state_dict (GradScaler)",
       [](A a) {
         optim::GradScaler().load_state_dict(
             state(a, {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}));
       }},
      {"load_state_dict (SGD)",
       [&](A a) {
         sgd.load_state_dict(state(a, {"lr", "0.step", "0.momentum_buffer"}));
       }},
      {"load_state_dict (StepLR)",
       [&](A a) {
         decay.load_state_dict(state(a, {"last_epoch", "base_lr"}));
       }},
      {"StepLR", [&](A a) { optim::StepLR(other, {.step_size = a.integer(), .gamma = a.scalar()}); }},
      {"CosineAnnealingLR",
       [&](A a) { optim::CosineAnnealingLR(other, {.T_max = a.integer(), .eta_min = a.scalar()}); }},
      {"OneCycleLR",
       [&](A a) {
         optim::OneCycleLR(other, {.max_lr = a.scalar(), .total_steps = a.integer(), .pct_start = a.scalar()});
       }},
      {"ReduceLROnPlateau",
       [&](A a) { optim::ReduceLROnPlateau(other, {.factor = a.scalar(), .patience = a.integer()}); }},
      {"clip_grad_norm_",
       [](A a) { return optim::clip_grad_norm_(with_gradients(a), a.scalar(), {.norm_type = a.scalar()}); }},
      {"clip_grad_value_", [](A a) { optim::clip_grad_value_(with_gradients(a), a.scalar()); }},
  };
  optim::visit_optimizers([&]<class Optimiser>() {
    table.push_back({optim::OptionsOf<Optimiser>::kName, construct<Optimiser>});
  });
  expect_errors_that_name_the_call(table, 5000, 28);
}

}  // namespace
}  // namespace adjoint::testing

// Random calls of the optimisers: no crash, and every error names the function called.

#include <adjoint/optim/adagrad.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/adam_variants.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/ema.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/optim/lbfgs.h>
#include <adjoint/optim/lion.h>
#include <adjoint/optim/muon.h>
#include <adjoint/optim/plateau.h>
#include <adjoint/optim/rmsprop.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/optim/sgd.h>
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

TEST(InvalidCalls, OfOptimisers) {
  const auto betas = [](A a) { return std::array<double, 2>{a.scalar(), a.scalar()}; };
  Tensor weight = Tensor::ones({2, 3});
  optim::SGD sgd({weight}, {.lr = 0.1, .momentum = 0.9});
  optim::StepLR decay(sgd, {.step_size = 2});
  optim::SGD other({weight});
  const std::vector<Call> table{
      {"SGD",
       [](A a) { optim::SGD(a.tensors(), {.lr = a.scalar(), .momentum = a.scalar(), .weight_decay = a.scalar()}); }},
      {"SGD", [&](A a) { sgd.set_lr(a.scalar()); }},
      {"Adam", [&](A a) { optim::Adam(a.tensors(), {.lr = a.scalar(), .betas = betas(a), .eps = a.scalar()}); }},
      {"AdamW", [&](A a) { optim::AdamW(a.tensors(), {.lr = a.scalar(), .betas = betas(a), .eps = a.scalar()}); }},
      {"RMSprop",
       [](A a) { optim::RMSprop(a.tensors(), {.lr = a.scalar(), .alpha = a.scalar(), .momentum = a.scalar()}); }},
      {"Lion", [&](A a) { optim::Lion(a.tensors(), {.lr = a.scalar(), .betas = betas(a)}); }},
      {"Adagrad",
       [](A a) { optim::Adagrad(a.tensors(), {.lr = a.scalar(), .lr_decay = a.scalar(), .eps = a.scalar()}); }},
      {"Adamax", [&](A a) { optim::Adamax(a.tensors(), {.lr = a.scalar(), .betas = betas(a), .eps = a.scalar()}); }},
      {"NAdam",
       [&](A a) { optim::NAdam(a.tensors(), {.lr = a.scalar(), .betas = betas(a), .momentum_decay = a.scalar()}); }},
      {"RAdam", [&](A a) { optim::RAdam(a.tensors(), {.lr = a.scalar(), .betas = betas(a), .eps = a.scalar()}); }},
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
  expect_errors_that_name_the_call(table, 5000, 28);
}

}  // namespace
}  // namespace adjoint::testing

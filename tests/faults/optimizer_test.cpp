// Optimisers and clipping if memory fails: parameters of several dtypes, gradients of any strides, recorded ones.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/adam_variants.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/ema.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/optim/lion.h>
#include <adjoint/optim/rmsprop.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/faults/faults.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

using Parameters = std::vector<Tensor>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(const Parameters&)>;

const std::vector<std::pair<std::string, Make>>& optimisers() {
  static const std::vector<std::pair<std::string, Make>> all{
      {"SGD", [](const Parameters& p) { return std::make_unique<optim::SGD>(p, optim::SGDOptions{.momentum = 0.9}); }},
      {"Adam",
       [](const Parameters& p) { return std::make_unique<optim::Adam>(p, optim::AdamOptions{.amsgrad = true}); }},
      {"RMSprop",
       [](const Parameters& p) {
         using Group = optim::ParamGroup<optim::RMSpropOptions>;
         return std::make_unique<optim::RMSprop>(
             std::vector<Group>{{.params = {p[0], p[1]}, .options = optim::RMSpropOptions{.centered = true}},
                                {.params = {p[2], p[3]}}});
       }},
      {"Lion", [](const Parameters& p) { return std::make_unique<optim::Lion>(p); }},
      {"NAdam", [](const Parameters& p) { return std::make_unique<optim::NAdam>(p); }},
  };
  return all;
}

// Four parameters of three dtypes, one of them longer than a parallel range, one whose gradient is not contiguous.
Parameters parameters() {
  Parameters all{Tensor::full({17000}, 1.0, {.requires_grad = true}),
                 Tensor::full({3}, 2.0, {.dtype = kFloat64, .requires_grad = true}),
                 Tensor::full({5}, 3.0, {.dtype = kFloat16, .requires_grad = true}),
                 Tensor::full({2, 3}, 4.0, {.requires_grad = true})};
  for (Tensor& p : all) p.set_grad(Tensor::full(p.shape(), 0.25, {.dtype = p.dtype()}));
  all[3].set_grad(Tensor::full({3, 2}, 0.5).view_as({2, 3}, {1, 2}, 0));
  return all;
}

struct State {
  Parameters parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
  NamedTensors other;  // another optimiser's state

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all = parameters;
    for (const auto& [name, tensor] : optimizer->state_dict()) all.push_back(tensor);
    return all;
  }
};

std::shared_ptr<State> make_state(const Make& make) {
  const auto s = std::make_shared<State>();
  s->parameters = parameters();
  s->optimizer = make(s->parameters);
  return s;
}

Trial trial_of(const std::shared_ptr<State>& s, std::vector<std::function<void()>> steps) {
  return {.steps = std::move(steps),
          .state = [s] { return s->tensors(); },
          .results = [] { return std::vector<Tensor>{}; }};
}

Trial steps_clips_and_loads(const Make& make) {
  const auto s = make_state(make);
  const auto other = make(parameters());
  for (int t = 0; t < 2; ++t) other->step();
  other->set_lr(0.03125);
  s->other = other->state_dict();
  const auto step = [s] { s->optimizer->step(); };
  return trial_of(s, {step, [s] { optim::clip_grad_norm_(s->parameters, 0.5, {.error_if_nonfinite = true}); },
                      [s] { optim::clip_grad_value_(s->parameters, 0.001); }, step,
                      [s] { s->optimizer->step({.max_norm = 0.5}); }, step,
                      [s] { s->optimizer->load_state_dict(s->other); }});
}

Trial clips_of_recorded_gradients() {
  const auto s = std::make_shared<Parameters>(parameters());
  s->erase(s->begin() + 1, s->begin() + 3);
  Tape tape;
  Tensor sum = Tensor::zeros({}, {.requires_grad = true});
  for (Tensor& p : *s) {
    p.set_grad({});
    sum = sum + (p * p).sum();
  }
  tape.backward(sum, {.record = true});
  return {.steps = {[s] { optim::clip_grad_norm_(*s, 100.0); }, [s] { optim::clip_grad_value_(*s, 0.125); }},
          .state = [s] { return *s; },
          .results = [] { return std::vector<Tensor>{}; }};
}

TEST(OptimizerFaults, StepsClipsAndLoadsChangeNothing) {
  const Threads one(1);
  for (const auto& [name, make] : optimisers()) {
    const Make& of_this = make;
    expect_all_or_nothing(name, [&of_this] { return steps_clips_and_loads(of_this); });
  }
}

TEST(OptimizerFaults, AScalerUnscalesOnce) {
  const Threads one(1);
  expect_all_or_nothing("GradScaler", [] {
    const auto s = make_state(optimisers()[0].second);
    const auto scaler = std::make_shared<optim::GradScaler>(optim::GradScalerOptions{.init_scale = 4.0});
    const auto step = [s, scaler] { scaler->step(*s->optimizer); };
    const auto clip = [s, scaler] { scaler->step(*s->optimizer, {.max_norm = 0.5}); };
    const auto update = [scaler] { scaler->update(); };
    const auto unscale = [s, scaler] { scaler->unscale_(*s->optimizer); };
    const auto scale = [scaler] { static_cast<void>(scaler->scale(Tensor::ones({}, {.dtype = kFloat16}))); };
    return Trial{.steps = {scale, unscale, step, update, unscale, step, update, clip, update,
                           [scaler] { scaler->load_state_dict(optim::GradScaler().state_dict()); }},
                 .state =
                     [s, scaler] {
                       std::vector<Tensor> tensors = s->tensors();
                       for (const auto& [name, tensor] : scaler->state_dict()) tensors.push_back(tensor);
                       return tensors;
                     },
                 .results = [] { return std::vector<Tensor>{}; }};
  });
}

TEST(OptimizerFaults, AveragesAreUpdatedAndLoadedOrLeft) {
  const Threads one(1);
  expect_all_or_nothing("EMA", [] {
    const auto all = std::make_shared<Parameters>(parameters());
    const auto ema = std::make_shared<optim::EMA>(*all), other = std::make_shared<optim::EMA>(parameters());
    other->update();
    const auto state = std::make_shared<NamedTensors>(other->state_dict());
    const auto update = [ema] { ema->update(); };
    return Trial{.steps = {update, [all] { (*all)[2].fill_(5.0); }, update, [ema] { const auto guard = ema->apply(); },
                           [ema, state] { ema->load_state_dict(*state); }},
                 .state =
                     [ema, all] {
                       std::vector<Tensor> tensors = *all;
                       for (const auto& [name, tensor] : ema->state_dict()) tensors.push_back(tensor);
                       return tensors;
                     },
                 .results = [] { return std::vector<Tensor>{}; }};
  });
}

TEST(OptimizerFaults, ClipsOfRecordedGradientsChangeNothing) {
  const Threads one(1);
  expect_all_or_nothing("recorded", clips_of_recorded_gradients);
}

}  // namespace
}  // namespace adjoint::testing

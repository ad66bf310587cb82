// The host's part of optimisers, schedules and averages in the replay of a captured step, on a device that only
// pretends to record: kernels run while the step is captured, and not in replays.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/ema.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/optim/plateau.h>
#include <adjoint/optim/rules.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/pretend_step_device.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

using detail::StepGraphs;
using Tensors = std::vector<Tensor>;

Tensor value_of(const NamedTensors& state, const std::string& wanted) {
  for (const auto& [name, tensor] : state) {
    if (name == wanted) return tensor;
  }
  ADD_FAILURE() << "no " << wanted;
  return Tensor::zeros({});
}

/// Returns true if the bytes of `value` are among those that were written last.
template <class T>
bool was_written(const PretendDevice& device, const T& value) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&value);
  return std::search(device.written.begin(), device.written.end(), begin, begin + sizeof(T)) != device.written.end();
}

void update(optim::Optimizer& optimizer, const Tensor& w) {
  optimizer.zero_grad();
  Tape tape;
  tape.backward((w * w).sum());
  optimizer.step();
}

struct Step {
  Tensor w = Tensor::from_vector({1.0F, 2.0F}, {2}, {.requires_grad = true});
  optim::Adam adam{{w}, {.lr = 0.1, .betas = {0.8, 0.9}}};
  optim::ExponentialLR schedule{adam, {.gamma = 0.5}};
  optim::EMA ema{Tensors{w}, {.decay = 0.9, .warmup = true}};
  std::shared_ptr<PretendDevice> device = std::make_shared<PretendDevice>();
  StepGraphs graphs{[this](const Tensors&) -> Tensors {
                      update(adam, w);
                      schedule.step();
                      ema.update();
                      return {};
                    },
                    {.device = kCPU},
                    device};
};

TEST(GraphedStepOptim, ReplaysCountAndWriteTheNumbersOfTheirUpdate) {
  Step s;
  for (int t = 1; t <= 6; ++t) {
    const double lr = s.adam.lr();
    s.graphs.run({});
    EXPECT_EQ(lr, 0.1 * std::pow(0.5, t - 1));
    EXPECT_EQ(s.adam.lr(), 0.1 * std::pow(0.5, t));
    EXPECT_EQ(s.schedule.last_epoch(), t);
    EXPECT_EQ(s.ema.n_averaged(), t);
    EXPECT_EQ(value_of(s.adam.state_dict(), "0.step").item<std::int64_t>(), t);
    if (t == 1) continue;  // runs uncaptured
    const optim::PlainAdam<float> rule({.lr = lr,
                                        .beta1 = 0.8,
                                        .beta2 = 0.9,
                                        .eps = 1e-8,
                                        .weight_decay = 0.0,
                                        .shrink = 1.0,
                                        .step = static_cast<double>(t)});
    EXPECT_FLOAT_EQ(rule.step_size, static_cast<float>(lr / (1.0 - std::pow(0.8, t))));
    EXPECT_FLOAT_EQ(rule.bias_correction2_sqrt, static_cast<float>(std::sqrt(1.0 - std::pow(0.9, t))));
    EXPECT_TRUE(was_written(*s.device, rule)) << "update " << t;
    EXPECT_TRUE(was_written(*s.device, optim::Average<float>({t / (9.0 + t)}))) << "update " << t;
  }
  EXPECT_EQ(s.device->begun, 1);
  EXPECT_EQ(s.device->launches, 5);
}

TEST(GraphedStepOptim, AStepThatFailsToBeCapturedDoesNotCount) {
  const Tensor w = Tensor::from_vector({1.0F, 2.0F}, {2}, {.requires_grad = true});
  optim::Adam adam({w}, {.lr = 0.1});
  optim::ExponentialLR schedule(adam, {.gamma = 0.5});
  optim::EMA ema(Tensors{w}, {.decay = 0.9});
  bool fails = false;
  StepGraphs graphs(
      [&](const Tensors&) -> Tensors {
        update(adam, w);
        adam.step();
        schedule.step();
        ema.update();
        if (fails) throw Error("late");
        return {};
      },
      {.device = kCPU}, std::make_shared<PretendDevice>());
  const auto expect_counts = [&](int steps) {
    EXPECT_EQ(value_of(adam.state_dict(), "0.step").item<std::int64_t>(), 2 * steps);
    EXPECT_EQ(schedule.last_epoch(), steps);
    EXPECT_EQ(adam.lr(), 0.1 * std::pow(0.5, steps));
    EXPECT_EQ(ema.n_averaged(), steps);
  };
  graphs.run({});
  fails = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(graphs.run({}), Error);
    expect_counts(1);
  }
  fails = false;
  graphs.run({});
  expect_counts(2);
  EXPECT_EQ(graphs.num_graphs(), 1U);
}

TEST(GraphedStepOptim, AReplayBehindTheEndOfAScheduleDoesNotCount) {
  const Tensor w = Tensor::from_vector({1.0F, 2.0F}, {2}, {.requires_grad = true});
  optim::Adam adam({w}, {.lr = 0.1});
  optim::OneCycleLR schedule(adam, {.max_lr = 0.1, .total_steps = 3, .cycle_momentum = false});
  StepGraphs graphs(
      [&](const Tensors&) -> Tensors {
        update(adam, w);
        schedule.step();
        return {};
      },
      {.device = kCPU}, std::make_shared<PretendDevice>());
  while (schedule.last_epoch() < 3) graphs.run({});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(graphs.run({}), Error);
    EXPECT_EQ(schedule.last_epoch(), 3);
    EXPECT_EQ(value_of(adam.state_dict(), "0.step").item<std::int64_t>(), 3);
  }
}

// The device knows how many updates were left out; the host writes the attributes of all that it counted.
TEST(GraphedStepOptim, AScaledAndClippedStepIsCapturedWhole) {
  const Tensor w = Tensor::from_vector({1.0F, 2.0F}, {2}, {.requires_grad = true});
  optim::Adam adam({w}, {.lr = 0.1});
  optim::GradScaler scaler;
  const auto device = std::make_shared<PretendDevice>();
  StepGraphs graphs(
      [&](const Tensors&) -> Tensors {
        adam.zero_grad();
        Tape tape;
        tape.backward(scaler.scale((w * w).sum()));
        const Tensor norm = scaler.step(adam, {.max_norm = 1.0});
        scaler.update();
        return {norm};
      },
      {.device = kCPU}, device);
  for (int t = 1; t <= 5; ++t) {
    adam.set_lr(0.1 * t);
    graphs.run({});
    EXPECT_EQ(value_of(adam.state_dict(), "0.step").item<std::int64_t>(), t);
    if (t == 1) continue;  // runs uncaptured
    const optim::AdamAttr attr{.lr = 0.1 * t,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .weight_decay = 0.0,
                               .shrink = 1.0,
                               .step = static_cast<double>(t)};
    EXPECT_TRUE(was_written(*device, attr)) << "update " << t;
  }
  EXPECT_EQ(device->begun, 1);
  adam.step();  // not the captured step's kind of update: the count is still the device's
  graphs.run({});
  EXPECT_EQ(device->begun, 1);
  EXPECT_EQ(value_of(adam.state_dict(), "0.step").item<std::int64_t>(), 7);
  optim::GradScaler other({.growth_factor = 4.0});
  scaler.load_state_dict(other.state_dict());
  graphs.run({});
  EXPECT_EQ(device->begun, 2) << "the factors that it has loaded are those of new kernels";
}

TEST(GraphedStepOptim, APlainStepIsCapturedAnewWhereAScalerCameBetween) {
  Step s;
  for (int i = 0; i < 3; ++i) s.graphs.run({});
  s.w.set_grad(Tensor::ones({2}));
  s.adam.step({.max_norm = 1.0});
  s.graphs.run({});
  EXPECT_EQ(s.device->begun, 2);
  EXPECT_EQ(value_of(s.adam.state_dict(), "0.step").item<std::int64_t>(), 5);
}

TEST(GraphedStepOptim, StatesThatAreLoadedAndGroupsThatFreezeAreCapturedAnew) {
  Step s;
  for (int i = 0; i < 3; ++i) s.graphs.run({});
  s.adam.load_state_dict(s.adam.state_dict());
  s.graphs.run({});
  EXPECT_EQ(s.device->begun, 2);
  s.ema.load_state_dict(s.ema.state_dict());
  s.graphs.run({});
  EXPECT_EQ(s.device->begun, 3);
  s.adam.set_frozen(true, 0);
  s.graphs.run({});
  EXPECT_EQ(s.device->begun, 4);
  s.graphs.run({});
  EXPECT_EQ(value_of(s.adam.state_dict(), "0.step").item<std::int64_t>(), 5) << "frozen";
  EXPECT_EQ(s.graphs.num_graphs(), 1U);
}

TEST(GraphedStepOptim, AGuardOfAveragesIsAnErrorInReplaysToo) {
  Step s;
  for (int i = 0; i < 3; ++i) s.graphs.run({});
  {
    const auto averages = s.ema.apply();
    EXPECT_ERROR(s.graphs.run({}), "EMA::update: the weights must be the network's own");
  }
  EXPECT_EQ(value_of(s.adam.state_dict(), "0.step").item<std::int64_t>(), 3) << "nothing of the step is counted";
  EXPECT_EQ(s.schedule.last_epoch(), 3);
  s.graphs.run({});
  EXPECT_EQ(s.ema.n_averaged(), 4);
  EXPECT_EQ(s.device->begun, 1);
}

class SignSGD : public optim::Optimizer {
 public:
  explicit SignSGD(Tensors parameters) : Optimizer("SignSGD", std::move(parameters), 0.1, {}) {}

 protected:
  void update(const optim::ParameterUpdate& u) override { u.parameter.add_(u.gradient, -u.lr); }
};

/// Calls a step twice; the second call runs `what`.
template <class F>
void captured(const F& what) {
  bool captures = false;
  StepGraphs graphs(
      [&](const Tensors&) -> Tensors {
        if (captures) what();
        return {};
      },
      {.device = kCPU}, std::make_shared<PretendDevice>());
  graphs.run({});
  captures = true;
  graphs.run({});
}

TEST(GraphedStepOptim, NamesWhatCannotBeCaptured) {
  Tensor w = Tensor::ones({2}, {.requires_grad = true});
  w.set_grad(Tensor::ones({2}));
  SignSGD own({w});
  own.step();
  EXPECT_ERROR(captured([&] { own.step(); }), "SignSGD: a captured step (GraphedStep) must not call an optimiser that");
  EXPECT_EQ(value_of(own.state_dict(), "0.step").item<std::int64_t>(), 1);
  optim::Adam fresh({w}, {});
  EXPECT_ERROR(captured([&] { fresh.step(); }), "Adam: a captured step (GraphedStep) must update parameters that were",
               "parameter 0 (shape (2,)) for the first time");
  optim::Adam plain({w}, {});
  plain.step();
  EXPECT_ERROR(captured([&] { plain.step({.max_norm = 1.0}); }), "updated before, for their state is made then, with a",
               "parameter 0 (shape (2,)) for the first time");
  optim::EMA ema(Tensors{w});
  EXPECT_ERROR(captured([&] { ema.update(); }), "EMA::update: a captured step (GraphedStep) must not be the first");
  optim::ReduceLROnPlateau plateau(fresh, {});
  EXPECT_ERROR(captured([&] { plateau.step(1.0); }), "ReduceLROnPlateau: a captured step (GraphedStep)");
}

}  // namespace
}  // namespace adjoint::testing

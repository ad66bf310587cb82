// Every optimiser, schedule and average through a checkpoint: a training that was stopped and went on, in new objects,
// has the bits of one that was not.
#include <adjoint/nn/checkpoint.h>
#include <adjoint/optim/ema.h>
#include <adjoint/optim/plateau.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::optim {
namespace {

namespace fs = std::filesystem;

using Parameters = std::vector<Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Parameters&)>;

// The objects that step, and those that keep their state in a checkpoint.
struct Stepped {
  std::shared_ptr<void> schedule;
  std::function<void(double metric)> step = [](double) {};
  std::function<void(nn::Checkpoint&)> add_to = [](nn::Checkpoint&) {};
};
using MakeSchedule = std::function<Stepped(Optimizer&)>;

// Two groups' worth of parameters, one of half precision.
Parameters parameters() {
  const auto make = [](std::uint64_t seed, DType dtype) {
    return Tensor::from_vector<double>(testing::reals(6, seed), {2, 3}, {.dtype = dtype}).requires_grad_();
  };
  return {make(1, kFloat32), make(2, kBFloat16), make(3, kFloat64)};
}

struct Training {
  Training(const fs::path& folder, const MakeOptimizer& make, const MakeSchedule& make_schedule)
      : optimizer(make(all)), schedule(make_schedule(*optimizer)), ema(all, {.decay = 0.5}), checkpoint(folder) {
    for (std::size_t i = 0; i < all.size(); ++i) checkpoint.add("parameter" + std::to_string(i), all[i]);
    checkpoint.add("optimizer", *optimizer);
    schedule.add_to(checkpoint);
    checkpoint.add("ema", ema);
  }

  // Steps first, first + 1, ... last - 1.
  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto seed = static_cast<std::uint64_t>(10 * t) + i;
        if (i == 2 && t == 0) continue;  // a parameter that begins later has no state yet
        all[i].set_grad(Tensor::from_vector<double>(testing::reals(6, seed), {2, 3}, {.dtype = all[i].dtype()}));
      }
      optimizer->step();
      optimizer->zero_grad();
      schedule.step(t < 2 ? 1.0 / static_cast<double>(t + 1) : 2.0);
      ema.update();
    }
  }

  std::vector<std::vector<double>> bits() const {
    std::vector<std::vector<double>> values;
    for (const Tensor& p : all) values.push_back(p.to_vector<double>());
    for (const NamedTensors& state : {optimizer->state_dict(), ema.state_dict()}) {
      for (const auto& [name, tensor] : state) values.push_back(tensor.to_vector<double>());
    }
    values.push_back({optimizer->lr(0), optimizer->momentum(0).value_or(-1.0)});
    return values;
  }

  Parameters all = parameters();
  std::unique_ptr<Optimizer> optimizer;
  Stepped schedule;
  EMA ema;
  nn::Checkpoint checkpoint;
};

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("adjoint_optim_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void expect_it_goes_on(const MakeOptimizer& make, const MakeSchedule& schedule) const {
    constexpr std::int64_t kSteps = 9;
    Training whole(folder_, make, schedule);
    whole.run(0, kSteps);
    for (const std::int64_t stopped : {0, 1, 4, 8}) {
      SCOPED_TRACE(stopped);
      fs::remove_all(folder_);
      {
        Training begun(folder_, make, schedule);
        begun.run(0, stopped);
        begun.checkpoint.save(stopped);
        begun.run(stopped, kSteps);  // saving changes nothing
        EXPECT_EQ(begun.bits(), whole.bits());
      }
      Training resumed(folder_, make, schedule);
      resumed.run(20, 22);  // for any earlier state
      ASSERT_EQ(resumed.checkpoint.resume(), stopped);
      resumed.run(stopped, kSteps);
      EXPECT_EQ(resumed.bits(), whole.bits());
    }
  }

  fs::path folder_;
};

template <class O, class Options>
MakeOptimizer optimizer(const Options& options) {
  return [options](const Parameters& p) {
    using Group = ParamGroup<Options>;
    Options other = options;
    other.lr = options.lr / 2;
    return std::make_unique<O>(std::vector<Group>{{.params = {p[0], p[1]}}, {.params = {p[2]}, .options = other}},
                               options);
  };
}

template <ScheduleOptions Options>
MakeSchedule curve(const Options& options) {
  return [options](Optimizer& o) {
    const auto schedule = std::make_shared<ScheduleOf<Options>>(o, options);
    return Stepped{.schedule = schedule,
                   .step = [schedule](double) { schedule->step(); },
                   .add_to = [schedule](nn::Checkpoint& c) { c.add("schedule", *schedule); }};
  };
}

const MakeOptimizer kSGD = optimizer<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9});

TEST_F(CheckpointTest, EveryOptimizerGoesOn) {
  for (const Json& c : fixture()["optimisers"]) {
    SCOPED_TRACE(name_of(c));
    visit_optimizer(c["kind"], [&]<class O>() {
      expect_it_goes_on(optimizer<O>(options_of<OptionsOf<O>>(c["options"])), [](Optimizer&) { return Stepped{}; });
    });
  }
}

TEST_F(CheckpointTest, EveryScheduleGoesOn) {
  const ExponentialLROptions exponential{.gamma = 0.8};
  const std::pair<const char*, MakeSchedule> schedules[] = {
      {"ConstantLR", curve(ConstantLROptions{.total_iters = 3})},
      {"LinearLR", curve(LinearLROptions{.total_iters = 6})},
      {"StepLR", curve(StepLROptions{.step_size = 3})},
      {"MultiStepLR", curve(MultiStepLROptions{.milestones = {2, 5}})},
      {"ExponentialLR", curve(exponential)},
      {"PolynomialLR", curve(PolynomialLROptions{.total_iters = 7, .power = 2.0})},
      {"CosineAnnealingLR", curve(CosineAnnealingLROptions{.T_max = 7, .warmup = {.steps = 2}})},
      {"CosineAnnealingWarmRestarts", curve(CosineAnnealingWarmRestartsOptions{.T_0 = 2, .T_mult = 2})},
      {"OneCycleLR", curve(OneCycleLROptions{.max_lr = 0.2, .total_steps = 30})},
      {"LambdaLR", curve(LambdaLROptions{.lr_lambda = [](std::int64_t t) { return 1.0 / static_cast<double>(t + 1); }})},
      {"SequentialLR",
       curve(SequentialLROptions{.schedules = {ConstantLROptions{}, exponential}, .milestones = {4}})},
      {"ChainedScheduler", curve(ChainedSchedulerOptions{.schedules = {ConstantLROptions{}, exponential}})},
      {"ReduceLROnPlateau",
       [](Optimizer& o) {
         const auto schedule = std::make_shared<ReduceLROnPlateau>(
             o, ReduceLROnPlateauOptions{.patience = 1, .cooldown = 1, .warmup = {.steps = 1}});
         return Stepped{.schedule = schedule,
                        .step = [schedule](double metric) { schedule->step(metric); },
                        .add_to = [schedule](nn::Checkpoint& c) { c.add("schedule", *schedule); }};
       }},
  };
  for (const auto& [name, make] : schedules) {
    SCOPED_TRACE(name);
    expect_it_goes_on(kSGD, make);
  }
}

// The last member does not fit: everything before it, the optimiser's rates and momenta too, is restored.
TEST_F(CheckpointTest, WhatDoesNotFitPutsEverythingBack) {
  const MakeSchedule one_cycle = curve(OneCycleLROptions{.max_lr = 0.2, .total_steps = 30});
  std::int64_t number = 1;
  {
    Training saved(folder_, kSGD, one_cycle);
    saved.checkpoint.add("number", number);
    saved.run(0, 4);
    saved.checkpoint.save(4);
  }
  double other = 1.0;
  for (const std::int64_t steps : {0, 6}) {
    Training training(folder_, kSGD, one_cycle);
    training.checkpoint.add("number", other);
    training.run(0, steps);
    const auto before = training.bits();
    EXPECT_ERROR(training.checkpoint.load(folder_ / "checkpoint-4.safetensors"), "does not fit 'number'");
    EXPECT_EQ(training.bits(), before);
    Training same(folder_, kSGD, one_cycle);
    same.run(0, steps + 2);
    training.run(steps, steps + 2);
    EXPECT_EQ(training.bits(), same.bits());
  }
}

}  // namespace
}  // namespace adjoint::optim

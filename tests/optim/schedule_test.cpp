// Schedules against PyTorch's numbers (tests/fixtures/optim.json), and their state.
#include <adjoint/optim/plateau.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::optim {
namespace {

const std::map<std::string, std::vector<Curve>>& curves() {
  static const Warmup warmup{.steps = 4, .start_factor = 0.25};
  static const ConstantLROptions constant{.factor = 0.25, .total_iters = 4};
  static const ExponentialLROptions exponential{.gamma = 0.9};
  static const CosineAnnealingLROptions cosine{.T_max = 8, .eta_min = 0.05};
  // The second of two is another spelling of the first.
  static const std::map<std::string, std::vector<Curve>> all{
      {"step", {StepLROptions{.step_size = 3, .gamma = 0.5}}},
      {"cosine", {cosine}},
      {"warmup_step",
       {StepLROptions{.step_size = 3, .gamma = 0.5, .warmup = warmup},
        SequentialLROptions{{LinearLROptions{.start_factor = 0.25, .total_iters = 4},
                             StepLROptions{.step_size = 3, .gamma = 0.5}},
                            {4}}}},
      {"warmup_cosine", {CosineAnnealingLROptions{.T_max = 8, .eta_min = 0.05, .warmup = warmup}}},
      {"constant", {constant}},
      {"linear", {LinearLROptions{.start_factor = 0.25, .end_factor = 0.75, .total_iters = 4}}},
      {"multi_step",
       {MultiStepLROptions{.milestones = {2, 5, 5, 9}, .gamma = 0.5},
        MultiStepLROptions{.milestones = {9, 5, 2, 5}, .gamma = 0.5}}},
      {"exponential", {exponential, StepLROptions{.step_size = 1, .gamma = 0.9}}},
      {"polynomial", {PolynomialLROptions{.total_iters = 6, .power = 2.0}}},
      {"restarts", {CosineAnnealingWarmRestartsOptions{.T_0 = 4}}},
      {"restarts_mult", {CosineAnnealingWarmRestartsOptions{.T_0 = 3, .T_mult = 2, .eta_min = 0.05}}},
      {"warmup_restarts",
       {CosineAnnealingWarmRestartsOptions{.T_0 = 3, .T_mult = 2, .eta_min = 0.05, .warmup = warmup}}},
      {"lambda", {LambdaLROptions{[](std::int64_t t) { return 1.0 / static_cast<double>(t + 1); }}}},
      {"sequential", {SequentialLROptions{{constant, exponential, cosine}, {4, 9}}}},
      {"chained", {ChainedSchedulerOptions{{constant, exponential}}, ChainedSchedulerOptions{{exponential, constant}}}},
      {"chained_cosine",
       {ChainedSchedulerOptions{{CosineAnnealingLROptions{.T_max = 20}, LinearLROptions{.total_iters = 4},
                                 StepLROptions{.step_size = 3, .gamma = 0.5}}}}},
  };
  return all;
}

TEST(Schedule, TakesItsFirstOptionsWithoutTheirNames) {
  const auto expect = [](const auto& make, const Curve& named) {
    SGD sgd = optimizer_of(0.4), other = optimizer_of(0.4);
    const auto spelt = make(sgd);
    EXPECT_EQ(spelt.preview(12), Schedule(other, {named}).preview(12)) << named.name();
  };
  using O = Optimizer;
  expect([](O& o) { return StepLR(o, 3, 0.5); }, StepLROptions{.step_size = 3, .gamma = 0.5});
  expect([](O& o) { return StepLR(o, 3); }, StepLROptions{.step_size = 3});
  expect(
      [](O& o) {
        return MultiStepLR(o, std::vector<std::int64_t>{2, 5}, 0.5);
      },
      MultiStepLROptions{.milestones = {2, 5}, .gamma = 0.5});
  expect([](O& o) { return ExponentialLR(o, 0.9); }, ExponentialLROptions{.gamma = 0.9});
  expect([](O& o) { return CosineAnnealingLR(o, 8, 0.05); }, CosineAnnealingLROptions{.T_max = 8, .eta_min = 0.05});
  expect([](O& o) { return CosineAnnealingWarmRestarts(o, 3, 2); },
         CosineAnnealingWarmRestartsOptions{.T_0 = 3, .T_mult = 2});
  expect([](O& o) { return ConstantLR(o, 0.5, 4); }, ConstantLROptions{.factor = 0.5, .total_iters = 4});
  expect([](O& o) { return LinearLR(o, 0.5, 0.75); }, LinearLROptions{.start_factor = 0.5, .end_factor = 0.75});
  expect([](O& o) { return PolynomialLR(o, 6, 2.0); }, PolynomialLROptions{.total_iters = 6, .power = 2.0});
  const auto lambda = [](std::int64_t t) { return 1.0 / static_cast<double>(t + 1); };
  expect([&](O& o) { return LambdaLR(o, lambda); }, LambdaLROptions{.lr_lambda = lambda});

  // PyTorch's last_epoch behind a curve of one option would become a warm-up, and epochs a total of steps a share.
  static_assert(!std::is_constructible_v<ExponentialLR, O&, double, int>);
  static_assert(!std::is_constructible_v<LambdaLR, O&, decltype(lambda), int>);
  static_assert(!std::is_constructible_v<OneCycleLR, O&, double, int, double>);
  SGD sgd = optimizer_of(0.1, 0.9);
  const std::vector<double> rates = OneCycleLR(sgd, 0.5, 10).preview(4);
  EXPECT_EQ(rates, OneCycleLR(sgd, {.max_lr = 0.5, .total_steps = 10}).preview(4));
}

TEST(Schedule, RatesArePyTorchs) {
  ASSERT_EQ(fixture()["schedules"].size(), curves().size());
  for (const auto& [name, same] : curves()) {
    const auto expected = fixture()["schedules"][name].get<std::vector<double>>();
    ASSERT_GE(expected.size(), 8U);
    for (const Curve& curve : same) {
      SGD sgd = optimizer_of(fixture()["base_lr"]);
      Schedule schedule(sgd, {curve});
      const auto preview = schedule.preview(static_cast<std::int64_t>(expected.size()));
      EXPECT_EQ(schedule.last_epoch(), 0);
      for (std::size_t t = 0; t < expected.size(); ++t) {
        EXPECT_NEAR(sgd.lr(), expected[t], 1e-15) << name << " step " << t;
        EXPECT_EQ(preview[t], sgd.lr());
        EXPECT_EQ(schedule.last_epoch(), static_cast<std::int64_t>(t));
        schedule.step();
      }
    }
  }
}

OneCycleLROptions one_cycle_of(const Json& o) {
  OneCycleLROptions options{.max_lr = o["max_lr"], .total_steps = o["total_steps"]};
  options.pct_start = o.value("pct_start", options.pct_start);
  if (o.contains("anneal_strategy")) options.anneal_strategy = Anneal::kLinear;
  options.cycle_momentum = o.value("cycle_momentum", options.cycle_momentum);
  options.base_momentum = o.value("base_momentum", options.base_momentum);
  options.max_momentum = o.value("max_momentum", options.max_momentum);
  options.div_factor = o.value("div_factor", options.div_factor);
  options.final_div_factor = o.value("final_div_factor", options.final_div_factor);
  options.three_phase = o.value("three_phase", options.three_phase);
  return options;
}

TEST(Schedule, OneCyclesRatesAndMomentaArePyTorchs) {
  ASSERT_EQ(fixture()["one_cycle"].size(), 6U);
  for (const Json& c : fixture()["one_cycle"]) {
    SGD sgd = optimizer_of(0.4, 0.9);
    Adam adam({start(kFloat64)}, {.betas = {0.9, 0.99}});
    OneCycleLR of_sgd(sgd, one_cycle_of(c["options"])), of_adam(adam, one_cycle_of(c["options"]));
    for (std::size_t t = 0; t < c["rates"].size(); ++t) {
      EXPECT_NEAR(sgd.lr(), c["rates"][t].get<double>(), 1e-15) << c["options"] << " step " << t;
      EXPECT_NEAR(sgd.options().momentum, c["momenta"][t].get<double>(), 1e-15) << c["options"] << " step " << t;
      EXPECT_EQ(adam.options().betas[0], sgd.options().momentum);
      EXPECT_EQ(adam.options().betas[1], 0.99);
      of_sgd.step();
      of_adam.step();
    }
    EXPECT_EQ(of_sgd.last_epoch(), c["options"]["total_steps"].get<std::int64_t>());
    EXPECT_NEAR(sgd.lr(), c["rates"].back().get<double>(), 1e-15);  // the last rate stays
    EXPECT_ERROR(of_sgd.step(), "OneCycleLR: there must be at most total_steps = ");
    EXPECT_EQ(of_sgd.last_epoch(), c["options"]["total_steps"].get<std::int64_t>());
  }
}

TEST(Schedule, WarmUpBeginsAnywhereFromNothingToTheWhole) {
  for (const double start : {0.0, 1.0}) {
    SGD sgd = optimizer_of(0.5);
    const Schedule schedule(sgd, {StepLROptions{.step_size = 9, .warmup = {.steps = 2, .start_factor = start}}});
    EXPECT_EQ(schedule.preview(3), (std::vector<double>{0.5 * start, 0.25 + 0.25 * start, 0.5}));
  }
}

// Of several curves that cycle a momentum the last one's counts, as that of several steps does.
TEST(Schedule, ChainsAndSequencesCycleMomenta) {
  const OneCycleLROptions one{.max_lr = 0.5, .total_steps = 9, .base_momentum = 0.75, .max_momentum = 0.875};
  const OneCycleLROptions other{.max_lr = 0.5, .total_steps = 9, .base_momentum = 0.25, .max_momentum = 0.5};
  const ExponentialLROptions none{.gamma = 0.9};
  const auto momenta = [](const Curve& curve) {
    SGD sgd = optimizer_of(0.4, 0.9);
    Schedule schedule(sgd, {curve});
    std::vector<double> all;
    for (int t = 0; t < 9; ++t, schedule.step()) all.push_back(sgd.options().momentum);
    return all;
  };
  const std::vector<double> of_one = momenta(one), of_other = momenta(other);
  EXPECT_EQ(of_one.front(), 0.875);
  EXPECT_EQ(of_other.front(), 0.5);
  EXPECT_EQ(momenta(ChainedSchedulerOptions{{one}}), of_one);
  EXPECT_EQ(momenta(ChainedSchedulerOptions{{none, one, none}}), of_one);
  EXPECT_EQ(momenta(ChainedSchedulerOptions{{one, other}}), of_other);
  EXPECT_EQ(momenta(ChainedSchedulerOptions{{other, none, one}}), of_one);
  EXPECT_EQ(momenta(ChainedSchedulerOptions{{none, none}}), std::vector<double>(9, 0.9)) << "left as it is";
  // A sequence's curve counts from its own beginning; if it has no momentum, the last one stays.
  std::vector<double> expected(of_one.begin(), of_one.begin() + 3);
  expected.insert(expected.end(), 2, expected.back());
  expected.insert(expected.end(), of_other.begin(), of_other.begin() + 4);
  EXPECT_EQ(momenta(SequentialLROptions{{one, none, other}, {3, 5}}), expected);
  EXPECT_EQ(momenta(ChainedSchedulerOptions{{SequentialLROptions{{one, none, other}, {3, 5}}, none}}), expected);
  SGD still = optimizer_of(0.4);
  EXPECT_ERROR(Schedule(still, {ChainedSchedulerOptions{{none, one}}}), "must keep a momentum or betas", "group 0");
}

TEST(Schedule, OneCycleOfAllStepsUpwards) {
  SGD sgd = optimizer_of(0.4);
  OneCycleLR schedule(sgd, {.max_lr = 0.5, .total_steps = 4, .pct_start = 1.0, .cycle_momentum = false});
  for (int t = 0; t < 3; ++t) schedule.step();
  EXPECT_EQ(sgd.lr(), 0.5);
  schedule.step();
  EXPECT_NEAR(sgd.lr(), 0.5 / 25 / 1e4, 1e-15);
}

TEST(Schedule, AMomentumThatIsNotKeptCannotBeCycled) {
  SGD sgd = optimizer_of(0.4);
  EXPECT_ERROR(OneCycleLR(sgd, {.max_lr = 1.0, .total_steps = 5}),
               "OneCycleLR: the optimiser must keep a momentum or betas to cycle; got none in its group 0; set "
               "cycle_momentum to false");
  EXPECT_EQ(sgd.lr(), 0.4);
  const OneCycleLR schedule(sgd, {.max_lr = 1.0, .total_steps = 5, .cycle_momentum = false});
  EXPECT_NEAR(sgd.lr(), 1.0 / 25, 1e-15);
}

TEST(Schedule, TellsTheRatesOfAllGroups) {
  SGD sgd({{.params = {start(kFloat64)}}, {.params = {start(kFloat64)}, .options = SGDOptions{.lr = 0.2}}},
          {.lr = 0.4});
  ExponentialLR schedule(sgd, 0.5);
  EXPECT_EQ(schedule.get_last_lr(), (std::vector<double>{0.4, 0.2}));
  schedule.step();
  EXPECT_EQ(schedule.get_last_lr(), (std::vector<double>{0.2, 0.1}));
}

TEST(Schedule, EachGroupHasItsOwnBaseRate) {
  const Tensor p = start(kFloat64), q = start(kFloat64), r = start(kFloat64);
  SGD sgd({{.params = {p}}, {.params = {q}, .options = SGDOptions{.lr = 0.25}}}, {.lr = 1.0});
  {
    StepLR schedule(sgd, {.step_size = 1, .gamma = 0.5});
    schedule.step();
    EXPECT_EQ(sgd.lr(0), 0.5);
    EXPECT_EQ(sgd.lr(1), 0.125);
    EXPECT_EQ(schedule.preview(3, 1), (std::vector<double>{0.125, 0.0625, 0.03125}));
    sgd.add_param_group({.params = {r}, .options = SGDOptions{.lr = 16.0}});
    schedule.step();
    EXPECT_EQ(sgd.lr(2), 4.0);
    const NamedTensors state = schedule.state_dict();
    EXPECT_EQ(state[1].second.to_vector<double>(), (std::vector<double>{1.0, 0.25, 16.0}));
    sgd.set_lr(7.0);
    schedule.load_state_dict(state);
    EXPECT_EQ(sgd.lr(1), 0.0625);
    EXPECT_ERROR(schedule.load_state_dict({{"base_lr", Tensor::zeros({2}, {.dtype = kFloat64})}}),
                 "base_lr one for each group; got (2,) as 'base_lr'");
  }
  sgd.set_lr(1.0);
  Schedule schedule(sgd, {ConstantLROptions{.factor = 1.0}, ExponentialLROptions{.gamma = 0.5},
                          LambdaLROptions{[](std::int64_t t) { return 2.0 + static_cast<double>(t); }}});
  schedule.step();
  EXPECT_EQ(sgd.lr(0), 1.0);
  EXPECT_EQ(sgd.lr(1), 0.5);
  EXPECT_EQ(sgd.lr(2), 3.0);
  sgd.add_param_group({.params = {start(kFloat64)}});
  EXPECT_ERROR(schedule.step(), "Schedule: there must be one curve, or one for each of the 4 groups; got 3");
}

// A curve of a program's own, which may cycle momentum and be warmed up.
struct HalvingOptions {
  std::int64_t every = 1;
  Warmup warmup = {};
  static constexpr const char* kName = "HalvingLR";
  void check() const {
    if (every < 1) throw Error("HalvingLR: every must be at least 1");
  }
  double lr(double base_lr, std::int64_t t) const { return std::ldexp(base_lr, -static_cast<int>(t / every)); }
  std::optional<double> momentum(std::int64_t t) const { return t < 2 ? 0.75 : 0.5; }
};

TEST(Schedule, TakesACurveOfOnesOwn) {
  SGD sgd = optimizer_of(1.0, 0.9);
  ScheduleOf<HalvingOptions> schedule(sgd, {.every = 2, .warmup = {.steps = 1, .start_factor = 0.5}});
  EXPECT_EQ(schedule.preview(6), (std::vector<double>{0.5, 1.0, 1.0, 0.5, 0.5, 0.25}));
  EXPECT_EQ(*sgd.momentum(), 0.75);
  for (int t = 0; t < 2; ++t) schedule.step();
  EXPECT_EQ(*sgd.momentum(), 0.75);
  schedule.step();
  EXPECT_EQ(*sgd.momentum(), 0.5);
  SGD other = optimizer_of(1.0, 0.9);
  EXPECT_ERROR(ScheduleOf<HalvingOptions>(other, {.every = 0}), "HalvingLR: every must be at least 1");
  const SequentialLROptions later{{HalvingOptions{}, ConstantLROptions{.factor = 1.0}}, {3}};
  EXPECT_EQ(Schedule(other, {later}).preview(5), (std::vector<double>{1.0, 0.5, 0.25, 1.0, 1.0}));
  const ChainedSchedulerOptions chained{{HalvingOptions{}, ConstantLROptions{}}};
  EXPECT_EQ(*chained.momentum(5), 0.5);
  EXPECT_FALSE(later.momentum(3).has_value());
}

TEST(Schedule, TwoThatLiveAreAnError) {
  SGD sgd = optimizer_of(0.4);
  const char* const both = "an optimiser must have one schedule; got SGD with a ";
  {
    const StepLR schedule(sgd, {.step_size = 2});
    EXPECT_ERROR(ExponentialLR(sgd, {.gamma = 0.9}), "ExponentialLR: ", both, "StepLR that lives", "SequentialLR");
    EXPECT_ERROR(ReduceLROnPlateau(sgd), "ReduceLROnPlateau: ", both, "StepLR");
    SGD moved = std::move(sgd);
    EXPECT_ERROR(StepLR(moved, {.step_size = 2}), "StepLR: ", both, "StepLR that");
    EXPECT_ERROR(StepLR(sgd, {.step_size = 2}), "StepLR: the optimiser must not have been moved from");
    EXPECT_ERROR(ReduceLROnPlateau(sgd), "ReduceLROnPlateau: the optimiser must not have been moved from");
    sgd = std::move(moved);
    sgd = optimizer_of(0.4);
    EXPECT_ERROR(StepLR(sgd, {.step_size = 2}), "StepLR: ", both, "StepLR that");
  }
  const ReduceLROnPlateau plateau(sgd);
  EXPECT_ERROR(StepLR(sgd, {.step_size = 2}), "StepLR: ", both, "ReduceLROnPlateau that");
  EXPECT_EQ(sgd.lr(), 0.4);
  SGD other = optimizer_of(0.5);
  const StepLR of_other(other, {.step_size = 2});
}

TEST(Schedule, ResumesExactlyFromItsState) {
  for (const auto& [name, same] : curves()) {
    SGD first = optimizer_of(0.4), second = optimizer_of(1.0);
    Schedule schedule(first, {same[0]}), resumed(second, {same[0]});
    for (int t = 0; t < 5; ++t) schedule.step();
    second.load_state_dict(first.state_dict());
    resumed.load_state_dict(schedule.state_dict());
    for (int t = 5; t < 12; ++t) {
      EXPECT_EQ(second.lr(), first.lr()) << name << " step " << t;
      schedule.step();
      resumed.step();
    }
  }
  SGD first = optimizer_of(0.4, 0.9), second = optimizer_of(0.4, 0.9);
  OneCycleLR schedule(first, {.max_lr = 1.0, .total_steps = 9}), resumed(second, {.max_lr = 1.0, .total_steps = 9});
  for (int t = 0; t < 5; ++t) schedule.step();
  resumed.load_state_dict(schedule.state_dict());
  EXPECT_EQ(second.lr(), first.lr());
  EXPECT_EQ(second.options().momentum, first.options().momentum);
}

TEST(Schedule, ARateThatIsNotFiniteChangesNothing) {
  SGD sgd = optimizer_of(1.0);
  StepLR schedule(sgd, {.step_size = 1, .gamma = 1e200});
  schedule.step();
  EXPECT_ERROR(schedule.step(), "StepLR: lr must be finite and not negative; got inf");
  EXPECT_ERROR(schedule.load_state_dict({{"last_epoch", Tensor::full({}, 2, {.dtype = kInt64})},
                                         {"base_lr", Tensor::full({}, 0.5, {.dtype = kFloat64})}}),
               "lr must be finite");
  EXPECT_EQ(schedule.last_epoch(), 1);
  EXPECT_EQ(schedule.state_dict()[1].second.item<double>(), 1.0);
  EXPECT_EQ(sgd.lr(), 1e200);
}

TEST(Schedule, PeriodsBeyondEveryCountEnd) {
  SGD sgd = optimizer_of(1.0);
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  CosineAnnealingWarmRestarts schedule(sgd, {.T_0 = 2, .T_mult = huge});
  for (int t = 0; t < 5; ++t) schedule.step();
  EXPECT_EQ(sgd.lr(), 1.0);
}

TEST(Schedule, BadOptionsAndStatesAreErrors) {
  SGD sgd = optimizer_of(0.4, 0.9);
  const auto error = [&](const auto& options, const char* message) { EXPECT_ERROR(Schedule(sgd, {options}), message); };
  error(StepLROptions{}, "StepLR: step_size must be at least 1; got 0");
  error(StepLROptions{.step_size = 2, .gamma = -0.1}, "StepLR: gamma must be finite and not negative; got -0.1");
  error(CosineAnnealingLROptions{}, "CosineAnnealingLR: T_max must be at least 1; got 0");
  error(CosineAnnealingLROptions{.T_max = 3, .eta_min = -1},
        "CosineAnnealingLR: eta_min must be finite and not negative; got -1");
  error(StepLROptions{.step_size = 2, .warmup = {.steps = -1}}, "StepLR: warmup.steps must not be negative; got -1");
  error(StepLROptions{.step_size = 2, .warmup = {.steps = 1, .start_factor = 1.5}},
        "StepLR: warmup.start_factor must be between 0 and 1; got 1.5");
  error(ConstantLROptions{.factor = 1.5}, "ConstantLR: factor must be between 0 and 1; got 1.5");
  error(ConstantLROptions{.total_iters = -1}, "ConstantLR: total_iters must be at least 0; got -1");
  error(LinearLROptions{.start_factor = -1}, "LinearLR: start_factor must be between 0 and 1; got -1");
  error(LinearLROptions{.end_factor = 2}, "LinearLR: end_factor must be between 0 and 1; got 2");
  error(LinearLROptions{.total_iters = 0}, "LinearLR: total_iters must be at least 1; got 0");
  error(MultiStepLROptions{.milestones = {3, -2}}, "MultiStepLR: a milestone must be at least 0; got -2");
  error(MultiStepLROptions{.gamma = -1}, "MultiStepLR: gamma must be finite and not negative; got -1");
  error(ExponentialLROptions{}, "ExponentialLR: gamma must be finite and above 0; got 0");
  error(PolynomialLROptions{.total_iters = 0}, "PolynomialLR: total_iters must be at least 1; got 0");
  error(PolynomialLROptions{.power = -1}, "PolynomialLR: power must be finite and not negative; got -1");
  error(CosineAnnealingWarmRestartsOptions{}, "CosineAnnealingWarmRestarts: T_0 must be at least 1; got 0");
  error(CosineAnnealingWarmRestartsOptions{.T_0 = 1, .T_mult = 0}, "T_mult must be at least 1; got 0");
  error(CosineAnnealingWarmRestartsOptions{.T_0 = 1, .eta_min = -2}, "eta_min must be finite and not negative; got -2");
  error(LambdaLROptions{}, "LambdaLR: lr_lambda must be a function; got none");
  error(SequentialLROptions{}, "SequentialLR: there must be one milestone fewer than schedules; got 0 and 0");
  const ConstantLROptions constant;
  error(SequentialLROptions{{constant, constant}, {1, 2}}, "got 2 and 2");
  error(SequentialLROptions{{constant, constant}, {0}}, "SequentialLR: milestones must be above 0 and ascend; got 0");
  error(SequentialLROptions{{constant, constant, constant}, {4, 4}}, "got 4 behind 4");
  error(ChainedSchedulerOptions{}, "ChainedScheduler: there must be a schedule; got none");
  const auto one_cycle = [&](auto change, const char* message) {
    OneCycleLROptions options{.max_lr = 1.0, .total_steps = 10};
    change(options);
    error(options, message);
  };
  using O = OneCycleLROptions;
  one_cycle([](O& o) { o.max_lr = -1; }, "OneCycleLR: max_lr must be finite and not negative; got -1");
  one_cycle([](O& o) { o.total_steps = 0; }, "OneCycleLR: total_steps must be at least 1; got 0");
  one_cycle([](O& o) { o.pct_start = 1.5; }, "OneCycleLR: pct_start must be between 0 and 1; got 1.5");
  one_cycle([](O& o) { o.anneal_strategy = static_cast<Anneal>(7); }, "OneCycleLR: a value of Anneal must be");
  one_cycle([](O& o) { o.div_factor = 0; }, "OneCycleLR: div_factor must be finite and above 0; got 0");
  one_cycle([](O& o) { o.final_div_factor = -1; }, "final_div_factor must be finite and above 0; got -1");
  one_cycle([](O& o) { o.base_momentum = 0; }, "OneCycleLR: base_momentum must be above 0 and below 1; got 0");
  one_cycle([](O& o) { o.max_momentum = 1; }, "OneCycleLR: max_momentum must be above 0 and below 1; got 1");
  EXPECT_ERROR(Schedule(sgd, {}), "Schedule: there must be one curve, or one for each of the 1 groups; got 0");
  EXPECT_ERROR(Schedule(sgd, {constant, constant}), "got 2");
  EXPECT_ERROR(LambdaLR(sgd, {[](std::int64_t) { return -1.0; }}),
               "LambdaLR: lr must be finite and not negative; got -0.4");

  StepLR schedule(sgd, {.step_size = 2});
  EXPECT_ERROR(schedule.load_state_dict({}), "load_state_dict (StepLR): the state must hold last_epoch and base_lr");
  EXPECT_ERROR(schedule.load_state_dict({{"last_epoch", Tensor::zeros({})}}), "got 'last_epoch' of float32");
  EXPECT_ERROR(schedule.load_state_dict({{"last_epoch", Tensor{}}}), "got Tensor{} as 'last_epoch'");
  EXPECT_ERROR(schedule.preview(-1), "StepLR: preview's n must not be negative; got -1");
  EXPECT_ERROR(schedule.preview(2, 1), "StepLR: preview's group must be one of 1, counted from 0; got 1");
  EXPECT_EQ(sgd.lr(), 0.4);
}

}  // namespace
}  // namespace adjoint::optim

// ReduceLROnPlateau against PyTorch's numbers (tests/fixtures/optim.json), and its state.
#include <adjoint/optim/plateau.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint::optim {
namespace {

ReduceLROnPlateauOptions plateau_of(const Json& o) {
  ReduceLROnPlateauOptions options;
  options.patience = o.value("patience", options.patience);
  options.factor = o.value("factor", options.factor);
  options.cooldown = o.value("cooldown", options.cooldown);
  options.min_lr = o.value("min_lr", options.min_lr);
  options.threshold = o.value("threshold", options.threshold);
  options.eps = o.value("eps", options.eps);
  if (o.contains("mode")) options.mode = PlateauMode::kMax;
  if (o.contains("threshold_mode")) options.threshold_mode = ThresholdMode::kAbs;
  return options;
}

TEST(ReduceLROnPlateau, RatesArePyTorchsAndResume) {
  ASSERT_EQ(fixture()["plateau"].size(), 5U);
  for (const Json& c : fixture()["plateau"]) {
    for (const std::size_t stop : {0, 4, 9, 15}) {
      const auto make = [] {
        return SGD({{.params = {start(kFloat64)}}, {.params = {start(kFloat64)}, .options = SGDOptions{.lr = 0.2}}},
                   {.lr = 0.4});
      };
      SGD sgd = make(), other = make();
      auto schedule = std::make_unique<ReduceLROnPlateau>(sgd, plateau_of(c["options"]));
      SGD* trained = &sgd;
      for (std::size_t t = 0; t < c["rates"].size(); ++t) {
        if (t == stop) {  // the rest is another run's
          auto resumed = std::make_unique<ReduceLROnPlateau>(other, plateau_of(c["options"]));
          resumed->load_state_dict(schedule->state_dict());
          other.load_state_dict(sgd.state_dict());
          schedule = std::move(resumed);
          trained = &other;
        }
        const Json& metric = fixture()["metrics"][t];
        schedule->step(metric.is_null() ? std::nan("") : metric.get<double>());
        EXPECT_EQ(schedule->last_epoch(), static_cast<std::int64_t>(t + 1));
        for (std::size_t g = 0; g < 2; ++g) {
          EXPECT_NEAR(trained->lr(g), c["rates"][t][g].get<double>(), 1e-16) << c["options"] << " step " << t;
        }
      }
    }
  }
}

TEST(ReduceLROnPlateau, TakesNamesOfModes) {
  SGD sgd = optimizer_of(0.4);
  ReduceLROnPlateau schedule(sgd, {.mode = "max", .factor = 0.5, .patience = 0, .threshold_mode = "abs"});
  for (const double metric : {1.0, 2.0}) schedule.step(metric);
  EXPECT_EQ(sgd.lr(), 0.4);
  schedule.step(1.5);
  EXPECT_EQ(sgd.lr(), 0.2);
  EXPECT_ERROR(ReduceLROnPlateau(sgd, {.mode = "least"}), "ReduceLROnPlateau: mode: a name must be one of \"min\"");
}

TEST(ReduceLROnPlateau, IsWarmedUp) {
  const ReduceLROnPlateauOptions options{.factor = 0.5, .patience = 0, .warmup = {.steps = 4, .start_factor = 0.5}};
  SGD sgd = optimizer_of(0.5), other = optimizer_of(3.0);
  ReduceLROnPlateau schedule(sgd, options), resumed(other, options);
  std::vector<double> rates{sgd.lr()};
  for (int t = 0; t < 6; ++t) {
    if (t == 2) {
      resumed.load_state_dict(schedule.state_dict());
      other.load_state_dict(sgd.state_dict());
    }
    ReduceLROnPlateau& going_on = t < 2 ? schedule : resumed;
    going_on.step(1.0 + t);  // the fifth is the best so far, the sixth is worse
    rates.push_back(t < 2 ? sgd.lr() : other.lr());
  }
  EXPECT_EQ(rates, (std::vector<double>{0.25, 0.3125, 0.375, 0.4375, 0.5, 0.5, 0.25}));
}

TEST(ReduceLROnPlateau, BadOptionsAndStatesAreErrors) {
  SGD sgd = optimizer_of(0.4);
  using O = ReduceLROnPlateauOptions;
  const auto error = [&](const O& options, const char* message) {
    EXPECT_ERROR(ReduceLROnPlateau(sgd, options), "ReduceLROnPlateau: ", message);
  };
  error({.factor = 1.0}, "factor must be in [0, 1); got 1");
  error({.patience = -1}, "patience must not be negative; got -1");
  error({.cooldown = -2}, "cooldown must not be negative; got -2");
  error({.threshold = -0.5}, "threshold must be finite and not negative; got -0.5");
  error({.min_lr = -0.25}, "min_lr must be finite and not negative; got -0.25");
  error({.warmup = {.steps = -3}}, "warmup.steps must not be negative; got -3");
  error({.eps = std::nan("")}, "eps must be finite and not negative; got nan");
  error({.mode = static_cast<PlateauMode>(2)}, "a value of PlateauMode must be");
  error({.threshold_mode = static_cast<ThresholdMode>(2)}, "a value of ThresholdMode must be");

  ReduceLROnPlateau schedule(sgd);
  const NamedTensors good = schedule.state_dict();
  const auto with = [&](std::size_t i, const Tensor& tensor) {
    NamedTensors state = good;
    state[i].second = tensor;
    return state;
  };
  const char* const load = "load_state_dict (ReduceLROnPlateau): ";
  EXPECT_ERROR(schedule.load_state_dict({}), load, "the state must hold 5 names; got 0");
  EXPECT_ERROR(schedule.load_state_dict({good[0], good[1], good[2], good[2], good[4]}), load,
               "float64 as 'best'; got no such name");
  EXPECT_ERROR(schedule.load_state_dict(with(1, Tensor::scalar(1.0))), "int64 as 'num_bad_epochs'; got float32()");
  EXPECT_ERROR(schedule.load_state_dict(with(3, Tensor{})), "'best'; got Tensor{}");
  EXPECT_ERROR(schedule.load_state_dict(with(4, Tensor::zeros({2}, {.dtype = kFloat64}))),
               "must hold 1 float64 as 'base_lr'; got float64(2,)");
  for (const double rate : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_ERROR(schedule.load_state_dict(with(4, Tensor::full({1}, rate, {.dtype = kFloat64}))), load,
                 "'base_lr' must be finite and not negative; got");
  }
  EXPECT_ERROR(schedule.load_state_dict(with(3, Tensor::scalar(std::nan(""), {.dtype = kFloat64}))), load,
               "'best' must be a number; got nan");
  const Tensor most = Tensor::full({}, 9e18, {.dtype = kInt64});
  EXPECT_ERROR(schedule.load_state_dict(with(0, most)), load, "'last_epoch' must be below 2^62");
  EXPECT_ERROR(schedule.load_state_dict(with(2, Tensor::scalar(-1, {.dtype = kInt64}))), load,
               "'cooldown_counter' must not be negative; got -1");
}

}  // namespace
}  // namespace adjoint::optim

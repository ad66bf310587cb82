// Optimisers and schedules against PyTorch's numbers (tests/fixtures/optim.json), and their state.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/linear.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::optim {
namespace {

TEST(Optimizer, TheFixtureHasTrajectoriesOfEvery) {
  visit_optimizers([]<class O>() {
    const Json& all = fixture()["optimisers"];
    EXPECT_GE(std::count_if(all.begin(), all.end(), [](const Json& c) { return c["kind"] == kind_of<O>(); }), 2)
        << OptionsOf<O>::kName;
  });
}

void expect_trajectories(DType dtype, double tolerance) {
  for (const Json& c : fixture()["optimisers"]) {
    Tensor p = start(dtype);
    const auto optimizer = make_optimizer(c, {p});
    for (std::size_t t = 0; t < c["points"].size(); ++t) {
      set_gradient(p, t);
      optimizer->step();
      const auto expected = c["points"][t].get<std::vector<double>>();
      const auto actual = p.to_vector<double>();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], tolerance * (1.0 + std::abs(expected[i])))
            << c["kind"] << " " << c["options"] << " step " << t << " element " << i;
      }
    }
  }
}

TEST(Optimizer, Float64TrajectoriesArePyTorchs) { expect_trajectories(kFloat64, 1e-14); }
TEST(Optimizer, Float32TrajectoriesArePyTorchs) { expect_trajectories(kFloat32, 2e-6); }

TEST(Optimizer, HalfPrecisionIsRoundedOnceAStep) {
  Tensor p = Tensor::full({3}, 1.0, {.dtype = kBFloat16, .requires_grad = true});
  SGD sgd({p}, {.lr = 0.5});
  p.set_grad(Tensor::full({3}, 0.1, {.dtype = kBFloat16}));
  sgd.step();
  const float gradient = static_cast<float>(bfloat16(0.1F));
  EXPECT_EQ(p.to_vector<float>()[2], static_cast<float>(bfloat16(1.0F - 0.5F * gradient)));
}

// Long enough for several parallel ranges and with a tail.
TEST(Optimizer, EveryElementOfALongParameterIsUpdatedAlike) {
  const std::int64_t n = 3 * 16384 + 5;
  Tensor p = Tensor::full({n}, 2.0, {.requires_grad = true});
  Tensor single = Tensor::full({1}, 2.0, {.requires_grad = true});
  Adam adam({p, single});
  for (int t = 0; t < 3; ++t) {
    p.set_grad(Tensor::full({n}, 0.5 + t));
    single.set_grad(Tensor::full({1}, 0.5 + t));
    adam.step();
  }
  const float expected = single.item<float>();
  for (const float value : p.to_vector<float>()) ASSERT_NEAR(value, expected, 1e-7F);
}

TEST(Optimizer, GradientsOfAnyStridesAreRead) {
  Tensor p = Tensor::zeros({2, 3}, {.requires_grad = true});
  p.set_grad(Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2}).view_as({2, 3}, {1, 2}, 0));
  SGD sgd({p}, {.lr = 1.0});
  sgd.step();
  EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{-1, -3, -5, -2, -4, -6}));
}

TEST(Optimizer, ParametersWithoutGradientsAreLeftAlone) {
  Tensor p = start(kFloat64), q = start(kFloat64);
  Adam adam({p, q}, {.weight_decay = 0.5});
  set_gradient(q, 0);
  adam.step();
  EXPECT_EQ(p.to_vector<double>(), fixture()["start"].get<std::vector<double>>());
  EXPECT_NE(q.to_vector<double>(), fixture()["start"].get<std::vector<double>>());
  const NamedTensors state = adam.state_dict();
  ASSERT_EQ(state.size(), 5U);  // lr, the second parameter's, and how many there are
  EXPECT_EQ(state[1].first, "1.step");
}

TEST(Optimizer, StepsWhileATapeRecords) {
  Tensor p = start(kFloat64);
  SGD sgd({p}, {.lr = 0.1});
  set_gradient(p, 0);
  const Tape tape;
  sgd.step();
  EXPECT_EQ(tape.size(), 0U);
  EXPECT_NE(p.to_vector<double>(), fixture()["start"].get<std::vector<double>>());
}

TEST(Optimizer, ZeroGradForgetsGradients) {
  Tensor p = start(kFloat64);
  SGD sgd({p});
  set_gradient(p, 0);
  sgd.zero_grad();
  EXPECT_FALSE(p.grad().defined());
}

TEST(Optimizer, ResumesExactlyFromItsState) {
  for (const Json& c : fixture()["optimisers"]) {
    Tensor p = start(kFloat32);
    const auto optimizer = make_optimizer(c, {p});
    for (std::size_t t = 0; t < 3; ++t) {
      set_gradient(p, t);
      optimizer->step();
    }
    optimizer->set_lr(0.0625);
    Tensor q = Tensor::from_vector(p.to_vector<float>(), p.shape(), {.requires_grad = true});
    const auto resumed = make_optimizer(c, {q});
    resumed->load_state_dict(optimizer->state_dict());
    EXPECT_EQ(resumed->lr(), 0.0625);
    for (std::size_t t = 3; t < 6; ++t) {
      set_gradient(p, t);
      set_gradient(q, t);
      optimizer->step();
      resumed->step();
    }
    EXPECT_EQ(p.to_vector<float>(), q.to_vector<float>()) << c["kind"] << " " << c["options"];
  }
}

TEST(Optimizer, AStateThatDoesNotFitChangesNothing) {
  Tensor p = start(kFloat32);
  Adam adam({p}, {.lr = 0.25});
  set_gradient(p, 0);
  adam.step();
  const NamedTensors good = adam.state_dict();
  const auto average = good[2].second.to_vector<float>();

  const auto without = [&](std::size_t i) {
    NamedTensors state = good;
    state.erase(state.begin() + static_cast<std::ptrdiff_t>(i));
    return state;
  };
  const auto with = [&](std::size_t i, const Tensor& tensor) {
    NamedTensors state = good;
    state[i].second = tensor;
    return state;
  };
  NamedTensors extra = good;
  extra.emplace_back("1.step", good[1].second);
  NamedTensors twice = good;
  twice.push_back(good[0]);
  EXPECT_ERROR(adam.load_state_dict({}), "load_state_dict (Adam): the state must hold 'lr'");
  EXPECT_ERROR(adam.load_state_dict(without(1)), "every name must belong to one of the 1 parameters; got '0.exp_avg");
  EXPECT_ERROR(adam.load_state_dict(without(3)), "the state must hold '0.exp_avg_sq'");
  EXPECT_ERROR(adam.load_state_dict(extra), "got '1.step'");
  EXPECT_ERROR(adam.load_state_dict(twice), "names must be unique; got 'lr' twice");
  EXPECT_ERROR(adam.load_state_dict(with(2, Tensor::zeros({4}))), "'0.exp_avg'", "float32 (5,)", "got float32 (4,)");
  EXPECT_ERROR(adam.load_state_dict(with(2, Tensor::zeros({5}, {.dtype = kFloat64}))), "got float64 (5,)");
  EXPECT_ERROR(adam.load_state_dict(with(1, Tensor::zeros({}, {.dtype = kInt64}))),
               "'0.step' must be at least 1; got 0");
  EXPECT_ERROR(adam.load_state_dict(with(1, Tensor::zeros({}))), "'0.step' must be one int64; got float32 ()");
  EXPECT_ERROR(adam.load_state_dict(with(0, Tensor::full({}, -1.0))), "lr must be finite and not negative; got -1");
  EXPECT_ERROR(adam.load_state_dict(with(3, Tensor{})), "every tensor must be defined; got Tensor{} as '0.exp_avg_sq'");
  EXPECT_EQ(adam.lr(), 0.25);
  EXPECT_EQ(adam.state_dict()[2].second.to_vector<float>(), average);
}

TEST(Optimizer, BadParametersAndOptionsAreErrors) {
  const Tensor p = start(kFloat64);
  EXPECT_ERROR(SGD({}), "SGD: there must be a parameter; got an empty list");
  EXPECT_ERROR(Adam({p, Tensor{}}), "Adam: parameters must be defined; got Tensor{} as parameter 1");
  EXPECT_ERROR(Adam({Tensor::zeros({2}, {.dtype = kInt32})}), "contiguous floating-point leaves; got int32 (2,)");
  EXPECT_ERROR(Adam({Tensor::zeros({2, 2}).view_as({2, 2}, {1, 2}, 0)}),
               "contiguous floating-point leaves; got float32 (2, 2)");
  EXPECT_ERROR(AdamW({p, p}), "AdamW: parameters must be distinct; got parameter 1 (shape (5,)) twice");
  EXPECT_ERROR(Adam({p}, {.lr = -1.0}), "Adam: lr must be finite and not negative; got -1");
  EXPECT_ERROR(Adam({p}, {.lr = std::nan("")}), "Adam: lr must be finite");
  EXPECT_ERROR(RMSprop({p}, {.alpha = 1.0}), "RMSprop: alpha must be in [0, 1); got 1");
  EXPECT_ERROR(SGD({p}, {.nesterov = true}), "SGD: nesterov needs a momentum above 0 and no dampening; got momentum 0");
  EXPECT_ERROR(SGD({p}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), "dampening 0.1");
}

// SGD's dampening may be any number. RMSprop's alpha and Adam's betas have other rules, which -1 breaks, too.
void expect_refused(const char* optimizer, const char* name, const std::function<void()>& make) {
  const std::string what = std::string(optimizer) + ": " + name + " must ";
  if (std::string(name) != "dampening") {
    EXPECT_ERROR(make(), what.c_str(), "; got -1");
  }
}

template <class O>
void expect_refuses_each_option() {
  using Options = OptionsOf<O>;
  const Tensor p = start(kFloat64);
  Options options;
  const auto make = [&] { O({p}, options); };
  visit_options(options, [&]<class T>(const char* name, T& option) {
    const T valid = option;
    if constexpr (std::is_same_v<T, double>) {
      option = -1.0;
      expect_refused(Options::kName, name, make);
    } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
      for (const T& invalid : {T{-1.0, 0.5}, T{1.0, 0.5}, T{0.5, 1.0}}) {
        option = invalid;
        EXPECT_ERROR(make(), Options::kName, ": betas must be in [0, 1); got ");
      }
    }
    option = valid;
  });
  EXPECT_NO_THROW(make());
}

TEST(Optimizer, RefusesEachOptionThatDoesNotFit) {
  visit_optimizers([]<class O>() { expect_refuses_each_option<O>(); });
}

// PyTorch's positional learning rate; {} is options, as it was.
template <class O>
void expect_takes_a_rate() {
  using Options = OptionsOf<O>;
  using Group = ParamGroup<Options>;
  const Tensor p = start(kFloat64), q = start(kFloat64);
  const std::vector<Tensor> both{p, q};
  Options changed;
  changed.weight_decay = 0.25;
  EXPECT_EQ(O(both, 0.25).lr(), 0.25);
  EXPECT_EQ(O({p, q}, 0.25F).parameters().size(), 2U);
  EXPECT_EQ(O({p}, 1).lr(), 1.0);
  EXPECT_EQ(O(both, {}).lr(), Options{}.lr);
  const O groups({{.params = {p}, .options = changed}, {.params = {q}}}, 0.5);
  EXPECT_EQ(groups.lr(0), Options{}.lr);
  EXPECT_EQ(groups.lr(1), 0.5);
  EXPECT_EQ(groups.options(1).weight_decay, Options{}.weight_decay);
  EXPECT_EQ(O(std::vector<Group>{{.params = {p}}}, 0.5).lr(), 0.5);
  EXPECT_ERROR(O(both, -1.0), Options::kName, ": lr must be finite and not negative; got -1");
}

TEST(Optimizer, TakesALearningRateWithoutItsName) {
  visit_optimizers([]<class O>() { expect_takes_a_rate<O>(); });
}

TEST(Optimizer, OneThatWasMovedFromIsAnError) {
  Tensor p = start(kFloat64), q = start(kFloat64);
  SGD sgd({p}, {.lr = 0.1});
  SGD moved = std::move(sgd);
  const char* rule = ": the optimiser must not have been moved from; got an empty one; assign an optimiser to it first";
  EXPECT_ERROR(sgd.step(), "step", rule);
  EXPECT_ERROR(sgd.step({.max_norm = 1.0}), "step", rule);
  EXPECT_ERROR(sgd.zero_grad(), "zero_grad", rule);
  EXPECT_ERROR(sgd.flatten_gradients(), "flatten_gradients", rule);
  EXPECT_ERROR(sgd.flat_gradients(), rule);
  EXPECT_ERROR(sgd.parameters(), "Optimizer::parameters", rule);
  EXPECT_ERROR(sgd.lr(), rule);
  EXPECT_ERROR(sgd.set_lr(0.1), "set_lr", rule);
  EXPECT_ERROR(sgd.set_lr(0.1, 0), rule);
  EXPECT_ERROR(sgd.options(), rule);
  EXPECT_ERROR(sgd.add_param_group({.params = {q}}), "add_param_group", rule);
  EXPECT_ERROR(sgd.state_dict(), "state_dict", rule);
  EXPECT_ERROR(sgd.load_state_dict(moved.state_dict()), "load_state_dict", rule);
  GradScaler scaler;
  static_cast<void>(scaler.scale(Tensor::ones({})));
  EXPECT_ERROR(scaler.step(sgd), rule);
  set_gradient(p, 0);
  moved.step();
  EXPECT_NE(p.to_vector<double>(), q.to_vector<double>());
  sgd = std::move(moved);
  EXPECT_NO_THROW(sgd.step());
  EXPECT_ERROR(moved.step(), rule);
}

TEST(OptimizerCuda, AgreesWithTheCpu) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const Json& c : fixture()["optimisers"]) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      std::vector<Tensor> host, device;
      for (std::int64_t i = 0; i < 70; ++i) {  // more than one table holds
        host.push_back(
            Tensor::full({1 + i * 211}, 0.5 + 0.01 * static_cast<double>(i), {.dtype = dtype, .requires_grad = true}));
        device.push_back(host.back().detach().to(kCUDA).requires_grad_());
      }
      const auto on_host = make_optimizer(c, host), on_device = make_optimizer(c, device);
      for (std::size_t t = 0; t < 3; ++t) {
        for (std::size_t i = 0; i < host.size(); ++i) {
          set_gradient(host[i], t);
          device[i].set_grad(host[i].grad().to(kCUDA));
        }
        on_host->step();
        on_device->step();
      }
      const double tolerance = dtype == kFloat64 ? 1e-13 : dtype == kFloat32 ? 1e-5 : 2e-2;
      for (std::size_t i = 0; i < host.size(); ++i) {
        const auto expected = host[i].to_vector<double>(), actual = device[i].to_vector<double>();
        for (std::size_t j = 0; j < expected.size(); ++j) {
          ASSERT_NEAR(actual[j], expected[j], tolerance) << c["kind"] << " " << c["options"] << " parameter " << i;
        }
      }
    }
  }
}

TEST(OptimizerCuda, StateFollowsParametersThatMove) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  nn::Linear layer(3, 2);
  Adam adam(layer.parameters());
  const auto train = [&] {
    for (Tensor& p : layer.parameters()) p.set_grad(Tensor::full(p.shape(), 0.5, {.device = p.device()}));
    adam.step();
  };
  train();
  const float before = layer.bias.to_vector<float>()[0];
  layer.to(kCUDA);
  train();
  EXPECT_EQ(adam.state_dict()[2].second.device(), Device(kCUDA));
  EXPECT_NEAR(layer.bias.to_vector<float>()[0], before - 1e-3F, 1e-6F);
}

}  // namespace
}  // namespace adjoint::optim

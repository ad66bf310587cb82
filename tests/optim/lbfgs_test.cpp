// L-BFGS compared with PyTorch's, on Rosenbrock's function.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/optim/lbfgs.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace adjoint::optim {
namespace {

LBFGSOptions lbfgs_options(const Json& given) {
  LBFGSOptions o;
  const auto take = [&](const char* name, auto& value) { value = given.value(name, value); };
  take("lr", o.lr);
  take("max_iter", o.max_iter);
  take("tolerance_grad", o.tolerance_grad);
  take("tolerance_change", o.tolerance_change);
  take("history_size", o.history_size);
  take("line_search_fn", o.line_search_fn);
  if (given.contains("max_eval")) o.max_eval = given["max_eval"].get<std::int64_t>();
  return o;
}

// The fixture's parameters and loss.
struct Rosenbrock {
  std::vector<Tensor> parts;
  int evaluations = 0;

  explicit Rosenbrock(DType dtype) {
    const auto values = fixture()["start"].get<std::vector<double>>();
    const TensorOptions options{.dtype = dtype, .requires_grad = true};
    parts = {Tensor::from_vector(std::vector<double>(values.begin(), values.begin() + 3), {3}, options),
             Tensor::from_vector(std::vector<double>(values.begin() + 3, values.end()), {2}, options)};
  }
  Tensor operator()(LBFGS& lbfgs) {
    ++evaluations;
    lbfgs.zero_grad();
    Tape tape;
    const Tensor p = cat(parts), before = p.narrow(0, 0, 4);
    const Tensor loss = (square(p.narrow(0, 1, 4) - square(before)) * 10.0 + square(1.0 - before)).sum() / 10.0;
    tape.backward(loss);
    return loss;
  }
  std::vector<double> values() const { return cat(parts).to_vector<double>(); }
};

TEST(LBFGS, TrajectoriesArePyTorchs) {
  ASSERT_EQ(fixture()["lbfgses"].size(), 6U);
  for (const Json& c : fixture()["lbfgses"]) {
    Rosenbrock f(kFloat64);
    LBFGS lbfgs(f.parts, lbfgs_options(c["options"]));
    for (std::size_t t = 0; t < c["points"].size(); ++t) {
      const double loss = lbfgs.step([&] { return f(lbfgs); }).item<double>(), wanted = c["losses"][t].get<double>();
      ASSERT_NEAR(loss, wanted, 1e-9 + 1e-7 * wanted) << c["options"] << " step " << t;
      const auto expected = c["points"][t].get<std::vector<double>>(), actual = f.values();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], 1e-7) << c["options"] << " step " << t << " element " << i;
      }
    }
    EXPECT_EQ(f.evaluations, c["evaluations"].get<int>()) << c["options"];
  }
}

TEST(LBFGS, FindsTheMinimumInEveryPrecision) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    Rosenbrock f(dtype);
    LBFGS lbfgs(f.parts, {.line_search_fn = "strong_wolfe"});
    for (int step = 0; step < 4; ++step) lbfgs.step([&] { return f(lbfgs); });
    const double tolerance = element_size(dtype) == 2 ? 0.5 : 1e-2;
    for (const double value : f.values()) EXPECT_NEAR(value, 1.0, tolerance) << to_string(dtype);
  }
}

TEST(LBFGS, ResumesFromItsState) {
  for (const char* search : {"", "strong_wolfe"}) {
    const LBFGSOptions options{.lr = 0.1, .max_iter = 3, .history_size = 4, .line_search_fn = search};
    Rosenbrock f(kFloat64), g(kFloat64);
    LBFGS lbfgs(f.parts, options), resumed(g.parts, options);
    EXPECT_EQ(lbfgs.state_dict().size(), 2U);  // the rate, and how many parameters there are
    for (int step = 0; step < 2; ++step) lbfgs.step([&] { return f(lbfgs); });
    for (std::size_t i = 0; i < 2; ++i) g.parts[i].detach().copy_(f.parts[i]);
    lbfgs.set_lr(0.25);
    resumed.load_state_dict(lbfgs.state_dict());
    EXPECT_EQ(resumed.lr(), 0.25);
    for (int step = 0; step < 2; ++step) {
      lbfgs.step([&] { return f(lbfgs); });
      resumed.step([&] { return g(resumed); });
    }
    EXPECT_EQ(g.values(), f.values()) << search;
  }
}

TEST(LBFGS, FollowsASchedule) {
  Rosenbrock f(kFloat64);
  LBFGS lbfgs(f.parts, 0.5);
  StepLR schedule(lbfgs, {.step_size = 1, .gamma = 0.5});
  lbfgs.step([&] { return f(lbfgs); });
  schedule.step();
  EXPECT_EQ(lbfgs.options().lr, 0.25);
}

TEST(LBFGS, AClosureThatThrowsChangesNothing) {
  Rosenbrock f(kFloat64), g(kFloat64);
  LBFGS lbfgs(f.parts, {.line_search_fn = "strong_wolfe"}), other(g.parts, {.line_search_fn = "strong_wolfe"});
  lbfgs.step([&] { return f(lbfgs); });
  other.step([&] { return g(other); });
  const std::vector<double> before = f.values();
  int calls = 0;
  const auto failing = [&] {
    if (++calls == 3) throw Error("the closure failed");
    return f(lbfgs);
  };
  EXPECT_ERROR(lbfgs.step(failing), "the closure failed");
  EXPECT_EQ(f.values(), before);
  lbfgs.step([&] { return f(lbfgs); });
  other.step([&] { return g(other); });
  EXPECT_EQ(f.values(), g.values());
}

TEST(LBFGS, LeavesWhatIsFrozenOrFlat) {
  Rosenbrock f(kFloat64);
  LBFGS lbfgs(f.parts);
  const std::vector<double> before = f.values();
  lbfgs.set_frozen(true, 0);
  lbfgs.step([&] { return f(lbfgs); });
  EXPECT_EQ(f.values(), before);
  lbfgs.set_frozen(false, 0);
  lbfgs.zero_grad();
  lbfgs.step([&] { return Tensor::scalar(1.0); });  // no gradient: each counts as 0
  EXPECT_EQ(f.values(), before);
}

TEST(LBFGS, SaysWhatIsWrong) {
  Rosenbrock f(kFloat64);
  LBFGS lbfgs(f.parts);
  EXPECT_ERROR(LBFGS({}), "LBFGS: there must be a parameter");
  EXPECT_ERROR(LBFGS(f.parts, {.max_iter = 0}), "max_iter, max_eval and history_size", "got 0");
  EXPECT_ERROR(LBFGS(f.parts, {.tolerance_grad = -1.0}), "tolerance_grad -1");
  EXPECT_ERROR(LBFGS(f.parts, {.line_search_fn = "armijo"}), "\"strong_wolfe\"", "\"armijo\"");
  EXPECT_ERROR(lbfgs.step({}), "LBFGS: the closure must not be empty");
  EXPECT_ERROR(lbfgs.step([] { return Tensor::ones({2}); }), "a loss of one element; got (2,)");
  EXPECT_ERROR(lbfgs.step([] { return Tensor{}; }), "got Tensor{}");
  Optimizer& base = lbfgs;
  f(lbfgs);
  EXPECT_ERROR(base.step(), "LBFGS: step() must be given a closure");
  LBFGS mixed({Tensor::ones({2}, {.requires_grad = true}), f.parts[0]});
  EXPECT_ERROR(mixed.step([&] { return f(mixed); }), "share a dtype", "float32", "float64");
  NamedTensors state = lbfgs.state_dict();
  state.emplace_back("lbfgs.n_iter", Tensor::from_vector<std::int64_t>({1}, {}));
  EXPECT_ERROR(lbfgs.load_state_dict(state), "load_state_dict (LBFGS): the state must hold 'lbfgs.func_evals'");
  lbfgs.step([&] { return f(lbfgs); });
  state = lbfgs.state_dict();
  for (auto& [name, tensor] : state) {
    if (name == "lbfgs.d") tensor = Tensor::ones({3});
  }
  EXPECT_ERROR(lbfgs.load_state_dict(state), "'lbfgs.d'", "(5,)", "(3,)");
}

}  // namespace
}  // namespace adjoint::optim

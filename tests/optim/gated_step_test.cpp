// Updates that depend on numbers in the device's memory: clipping on the way into the update, and updates that a
// GradScaler leaves out, which do not count.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::optim {
namespace {

using Tensors = std::vector<Tensor>;
using Make = std::function<std::unique_ptr<Optimizer>(const Tensors&)>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Those of the fixture.
const std::vector<std::pair<std::string, Make>>& optimisers() {
  static const std::vector<std::pair<std::string, Make>> all = [] {
    std::vector<std::pair<std::string, Make>> made;
    for (const Json& c : fixture()["optimisers"]) {
      made.emplace_back(name_of(c), [&c](const Tensors& parameters) { return make_optimizer(c, parameters); });
    }
    return made;
  }();
  return all;
}

Tensors make_parameters(DType dtype, Device device) {
  Tensors all;
  for (const std::int64_t size : {5, 4097, 1}) {
    const std::vector<double> values = testing::reals(size, 3);
    all.push_back(Tensor::from_vector(values, {size}, {.dtype = dtype, .device = device}).requires_grad_());
  }
  return all;
}

/// Gradients of step t, times `factor`. Step 2 leaves the last parameter without.
void set_gradients(const Tensors& parameters, int t, double factor = 1.0) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto seed = static_cast<std::uint64_t>(10 * t) + i;
    const std::vector<double> values = testing::reals(parameters[i].numel(), seed);
    const Tensor gradient =
        Tensor::from_vector(values, parameters[i].shape(), {.dtype = parameters[i].dtype(), .device = kCPU});
    Tensor parameter = parameters[i];
    parameter.set_grad(t == 2 && i == 2 ? Tensor{} : (gradient * factor).to(parameter.device()));
  }
}

void expect_same(const std::string& what, const NamedTensors& actual, const NamedTensors& expected) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].first, expected[i].first) << what;
    testing::expect_same_bits(what + " " + actual[i].first, actual[i].second.to(kCPU), expected[i].second.to(kCPU));
  }
}

void expect_clipped_on_the_way(DType dtype, Device device, double tolerance) {
  for (const auto& [name, make] : optimisers()) {
    SCOPED_TRACE(name);
    const Tensors one = make_parameters(dtype, device), two = make_parameters(dtype, device);
    const std::unique_ptr<Optimizer> fused = make(one), plain = make(two);
    for (int t = 0; t < 4; ++t) {
      set_gradients(one, t);
      set_gradients(two, t);
      const double max_norm = t == 3 ? 1e6 : 0.5;  // the last is not reached
      const Tensor gradient = one[1].grad().clone();
      const Tensor norm = fused->step({.max_norm = max_norm});
      EXPECT_EQ(norm.item<double>(), clip_grad_norm_(two, max_norm).item<double>());
      plain->step();
      testing::expect_same_bits("gradient", one[1].grad().to(kCPU), gradient.to(kCPU));
    }
    for (std::size_t i = 0; i < one.size(); ++i) {
      testing::expect_near("parameter", one[i].to(kCPU), two[i].to_vector<double>(), tolerance);
    }
    EXPECT_FALSE(fused->step().defined());
  }
}

TEST(GatedStep, ClipsOnTheWayIntoTheUpdate) {
  expect_clipped_on_the_way(kFloat64, kCPU, 1e-13);
  expect_clipped_on_the_way(kFloat32, kCPU, 1e-5);
}
TEST(GatedStepCuda, ClipsOnTheWayIntoTheUpdate) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_clipped_on_the_way(kFloat64, kCUDA, 1e-13);
  expect_clipped_on_the_way(kFloat32, kCUDA, 1e-5);
}

/// Steps 0, 3 and 4 have an infinity: the training equals that of the other steps alone, bit for bit, and so does the
/// saved state.
void expect_skips_not_to_count(DType dtype, Device device) {
  for (const auto& [name, make] : optimisers()) {
    for (const bool clips : {false, true}) {
      SCOPED_TRACE(name + (clips ? ", clipped" : ""));
      const StepOptions options{.max_norm = clips ? std::optional<double>(0.5) : std::nullopt};
      const Tensors one = make_parameters(dtype, device), two = make_parameters(dtype, device);
      std::unique_ptr<Optimizer> scaled = make(one);
      const std::unique_ptr<Optimizer> expected = make(two);
      GradScaler scaler({.init_scale = 4.0, .backoff_factor = 0.5, .growth_interval = 1000}), finite({.init_scale = 4});
      static_cast<void>(finite.scale(Tensor::ones({}, {.device = device})));
      const auto step = [&](GradScaler& by, Optimizer& optimizer) {
        by.step(optimizer, options);
        by.update();
      };
      for (int t = 0; t < 7; ++t) {
        static_cast<void>(scaler.scale(Tensor::ones({}, {.device = device})));
        const double scale = scaler.get_scale();
        set_gradients(one, t, scale);
        const bool bad = t == 0 || t == 3 || t == 4;
        if (bad) one[1].grad().narrow(0, 4000, 1).fill_(t == 3 ? std::nan("") : kInfinity);
        step(scaler, *scaled);
        EXPECT_EQ(scaler.get_scale(), bad ? 0.5 * scale : scale);
        if (!bad) {
          set_gradients(two, t, finite.get_scale());
          step(finite, *expected);
        }
        expect_same("step " + std::to_string(t), scaled->state_dict(), expected->state_dict());
        if (t != 4) continue;
        std::unique_ptr<Optimizer> loaded = make(one);  // resumes from the saved state
        loaded->load_state_dict(scaled->state_dict());
        scaled = std::move(loaded);
      }
      set_gradients(one, 7);
      set_gradients(two, 7);
      scaled->step();  // plainly, with the count that the device knows
      expected->step();
      expect_same("plain step", scaled->state_dict(), expected->state_dict());
      for (std::size_t i = 0; i < one.size(); ++i) {
        testing::expect_same_bits("parameter", one[i].to(kCPU), two[i].to(kCPU));
      }
    }
  }
}

TEST(GatedStep, UpdatesThatAreLeftOutDoNotCount) {
  expect_skips_not_to_count(kFloat32, kCPU);
  expect_skips_not_to_count(kBFloat16, kCPU);
}
TEST(GatedStepCuda, UpdatesThatAreLeftOutDoNotCount) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_skips_not_to_count(kFloat32, kCUDA);
  expect_skips_not_to_count(kBFloat16, kCUDA);
}

TEST(GatedStep, GradientsStayScaledUnlessTheyAreUnscaled) {
  const Tensor p = Tensor::zeros({3}, {.requires_grad = true});
  SGD sgd({p}, {.lr = 1.0});
  GradScaler scaler({.init_scale = 8.0});
  for (const bool unscaled : {false, true}) {
    Tensor leaf = p;
    {
      Tape tape;
      tape.backward(scaler.scale((p * 3.0).sum()));
    }
    if (unscaled) scaler.unscale_(sgd);
    const Tensor norm = scaler.step(sgd, {.max_norm = 1.0});
    scaler.update();
    EXPECT_NEAR(norm.item<double>(), std::sqrt(27.0), 1e-12);
    EXPECT_EQ(p.grad().to_vector<float>(), std::vector<float>(3, unscaled ? 3.0F : 24.0F));
    EXPECT_NEAR(p.to_vector<float>()[0], (unscaled ? 2.0 : 1.0) * -std::sqrt(1.0 / 3.0), 1e-6);
    leaf.set_grad({});
  }
}

/// A norm whose square is beyond float64 is no infinite gradient.
TEST(GatedStep, LargeFiniteGradientsAreFinite) {
  const Tensor p = Tensor::zeros({2}, {.dtype = kFloat64, .requires_grad = true});
  SGD sgd({p}, {.lr = 1e-200});
  GradScaler scaler({.init_scale = 2.0});
  Tape tape;
  tape.backward(scaler.scale((p * 1e200).sum()));
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 2.0);
  EXPECT_NEAR(p.to_vector<double>()[0], -1.0, 1e-12);
}

/// An optimiser of a program's own, in operators.
class Own : public Optimizer {
 public:
  explicit Own(const Tensors& parameters) : Optimizer("Own", parameters, 0.5, {}) {}
  std::vector<std::int64_t> steps;

 protected:
  void update(const ParameterUpdate& u) override {
    steps.push_back(u.step);
    u.parameter.add_(u.gradient, -u.lr);
  }
};

TEST(GatedStep, OptimisersOfOnesOwnGetClippedGradients) {
  const Tensor p = Tensor::zeros({2}, {.requires_grad = true});
  Own own({p});
  GradScaler scaler({.init_scale = 4.0});
  const auto step = [&](double gradient) {
    Tape tape;
    tape.backward(scaler.scale((p * gradient).sum()));
    const Tensor norm = scaler.step(own, {.max_norm = std::sqrt(2.0)});
    scaler.update();
    own.zero_grad();
    return norm.item<double>();
  };
  EXPECT_NEAR(step(3.0), std::sqrt(18.0), 1e-6);
  EXPECT_NEAR(p.to_vector<float>()[0], -0.5, 1e-6);
  EXPECT_FALSE(std::isfinite(step(kInfinity)));
  step(0.5);
  EXPECT_NEAR(p.to_vector<float>()[0], -0.75, 1e-6);
  EXPECT_EQ(own.steps, (std::vector<std::int64_t>{1, 2}));
}

TEST(GatedStep, BadNormsAreErrors) {
  const Tensor p = Tensor::zeros({2}, {.requires_grad = true});
  Tensor leaf = p;
  leaf.set_grad(Tensor::ones({2}));
  SGD sgd({p}, {.lr = 1.0});
  Own own({p});
  EXPECT_ERROR(sgd.step({.max_norm = -1.0}), "SGD: max_norm must not be negative; got -1");
  EXPECT_ERROR(sgd.step({.max_norm = std::nan("")}), "SGD: max_norm must not be negative; got nan");
  EXPECT_ERROR(own.step({.max_norm = -1.0}), "max_norm must not be negative; got -1");
  GradScaler scaler;
  static_cast<void>(scaler.scale(Tensor::ones({})));
  EXPECT_ERROR(scaler.step(sgd, {.max_norm = -1.0}), "GradScaler::step: max_norm must not be negative; got -1");
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(2, 0.0F));
  scaler.step(sgd, {.max_norm = 1.0});  // can be called again
}

}  // namespace
}  // namespace adjoint::optim

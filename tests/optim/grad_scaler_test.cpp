// GradScaler against PyTorch's (tests/fixtures/optim.json), the updates it skips, and its state.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/checkpoint.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

GradScalerOptions scaler_options(const Json& o) {
  return {.init_scale = o["init_scale"],
          .growth_factor = o["growth_factor"],
          .backoff_factor = o["backoff_factor"],
          .growth_interval = o["growth_interval"]};
}

std::int64_t growth_tracker(const GradScaler& scaler) { return scaler.state_dict().back().second.item<std::int64_t>(); }

// The factor of parameter i's loss in step t of the fixture.
double factor_of(std::size_t t, std::size_t i) {
  for (const Json& bad : fixture()["bad"]) {
    if (bad[0] == t && bad[1] == i) return std::stod(bad[2].get<std::string>());
  }
  return 1.0;
}

// Clipped behind unscale_(), or on the way into the update.
void expect_trajectories(DType dtype, Device device, double tolerance, bool fused) {
  ASSERT_EQ(fixture()["scaled"].size(), 6U);
  for (const Json& c : fixture()["scaled"]) {
    if (dtype == kFloat32 && c["options"]["init_scale"] > 1e30) continue;  // its scaled gradients are float64's alone
    SCOPED_TRACE(c["options"].dump() + " max_norm " + c["max_norm"].dump());
    std::vector<Tensor> parameters;
    for (const double sign : {1.0, -1.0}) {
      parameters.push_back((start(dtype).detach() * sign).to(device).requires_grad_());
    }
    SGD sgd({parameters[0]}, {.lr = 0.05, .momentum = 0.9});
    Adam adam({parameters[1]}, {.lr = 0.1});
    GradScaler scaler(scaler_options(c["options"]));
    for (std::size_t t = 0; t < c["points"].size(); ++t) {
      {
        Tape tape;
        Tensor loss;
        for (std::size_t i = 0; i < 2; ++i) {
          set_gradient(parameters[i], t);
          const Tensor gradient = parameters[i].grad();
          parameters[i].set_grad({});
          const Tensor part = (parameters[i] * gradient).sum() * factor_of(t, i);
          loss = loss.defined() ? loss + part : part;
        }
        tape.backward(scaler.scale(loss));
      }
      const double max_norm = c["max_norm"];
      if (max_norm != 0.0 && !fused) {
        scaler.unscale_(sgd);
        clip_grad_norm_(sgd.parameters(), max_norm);
      }
      scaler.step(sgd, {.max_norm = max_norm != 0.0 && fused ? std::optional<double>(max_norm) : std::nullopt});
      scaler.step(adam);
      scaler.update();
      ASSERT_EQ(scaler.get_scale(), c["scales"][t].get<double>()) << t;
      ASSERT_EQ(growth_tracker(scaler), c["trackers"][t].get<std::int64_t>()) << t;
      for (std::size_t i = 0; i < 2; ++i) {
        testing::expect_near("step " + std::to_string(t), parameters[i], c["points"][t][i], tolerance);
      }
    }
  }
}

TEST(GradScaler, TrajectoriesOfTwoOptimisersArePyTorchs) {
  for (const bool fused : {false, true}) {
    expect_trajectories(kFloat64, kCPU, 1e-13, fused);
    expect_trajectories(kFloat32, kCPU, 5e-6, fused);
  }
}

TEST(GradScalerCuda, TrajectoriesOfTwoOptimisersArePyTorchs) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const bool fused : {false, true}) {
    expect_trajectories(kFloat64, kCUDA, 1e-13, fused);
    expect_trajectories(kFloat32, kCUDA, 5e-6, fused);
  }
}

// A loss whose gradient in p is `gradient` everywhere.
void backward(GradScaler& scaler, const Tensor& p, double gradient) {
  Tape tape;
  tape.backward(scaler.scale((p * gradient).sum()));
}

// Any one element of many tensors makes the optimiser leave out its step.
void expect_every_element_to_be_seen(Device device) {
  const std::vector<std::int64_t> sizes{1, 5, 4096, 4097, 3 * 16384 + 5};
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 70; ++i) {  // more than one table of a launch holds
      const Shape shape{sizes[static_cast<std::size_t>(i) % sizes.size()]};
      parameters.push_back(Tensor::ones(shape, {.dtype = dtype, .device = device, .requires_grad = true}));
    }
    const TensorOptions options{.dtype = dtype, .device = device};
    for (const double bad : {kInfinity, -kInfinity, std::nan(""), 2.0}) {
      for (const std::size_t at : {0, 2, 64, 69}) {
        GradScaler scaler({.init_scale = 4.0, .growth_interval = 1});
        SGD sgd(parameters, {.lr = 0.25, .master_weights = false});
        const Tensor first = parameters[0];
        static_cast<void>(scaler.scale(Tensor::ones({}, {.device = device})));
        for (Tensor& p : parameters) {
          p.fill_(1.0);
          p.set_grad(Tensor::full(p.shape(), 2.0, options));
        }
        const std::int64_t last = parameters[at].numel() - 1;
        parameters[at].grad().narrow(0, last, 1).fill_(bad);
        scaler.step(sgd);
        scaler.update();
        const bool stepped = bad == 2.0;
        EXPECT_EQ(scaler.get_scale(), stepped ? 8.0 : 2.0);
        for (const std::size_t i : {std::size_t{0}, at, std::size_t{69}}) {
          EXPECT_EQ(parameters[i].to_vector<double>().back(), stepped ? 0.875 : 1.0) << to_string(dtype) << bad << at;
        }
        EXPECT_EQ(sgd.state_dict().size(), stepped ? 72U : 2U);  // a step that is left out does not count
      }
    }
  }
}

TEST(GradScaler, SeesEveryElement) { expect_every_element_to_be_seen(kCPU); }
TEST(GradScalerCuda, SeesEveryElement) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_every_element_to_be_seen(kCUDA);
}

TEST(GradScaler, OneOptimisersInfinityIsNotTheOthers) {
  const Tensor p = Tensor::ones({3}, {.requires_grad = true}), q = Tensor::ones({3}, {.requires_grad = true});
  SGD first({p}, {.lr = 0.5}), second({q}, {.lr = 0.5});
  GradScaler scaler({.init_scale = 8.0});
  {
    Tape tape;
    tape.backward(scaler.scale((p * kInfinity).sum() + q.sum()));
  }
  scaler.step(first);
  scaler.step(second);
  EXPECT_EQ(scaler.get_scale(), 8.0);  // until update()
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 4.0);
  EXPECT_EQ(p.to_vector<double>(), std::vector<double>(3, 1.0));
  EXPECT_EQ(q.to_vector<double>(), std::vector<double>(3, 0.5));
}

TEST(GradScaler, UnscaledGradientsAreTheLossesOwn) {
  for (const bool flat : {false, true}) {
    const Tensor p = Tensor::ones({2, 3}, {.requires_grad = true});
    SGD sgd({p}, {.lr = 1.0});
    if (flat) sgd.flatten_gradients();
    GradScaler scaler({.init_scale = 3.0});
    backward(scaler, p, 0.75);
    EXPECT_EQ(p.grad().to_vector<double>(), std::vector<double>(6, 2.25));
    {
      const Tape tape;
      scaler.unscale_(sgd);
      EXPECT_EQ(tape.size(), 0U);
    }
    EXPECT_NEAR(p.grad().to_vector<double>()[5], 0.75, 1e-7);
    if (flat) {
      EXPECT_EQ(sgd.flat_gradients().narrow(0, 0, 6).to_vector<double>(), p.grad().to_vector<double>());
    }
    EXPECT_EQ(clip_grad_norm_({p}, 1e9).dtype(), kFloat64);
    scaler.step(sgd);
    EXPECT_NEAR(p.to_vector<double>()[5], 0.25, 1e-7);
  }
}

TEST(GradScaler, ScalesALossOfAnyDtype) {
  GradScaler scaler({.init_scale = 1024.0});
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor loss = Tensor::full({2}, 512.0, {.dtype = dtype});
    const Tensor scaled = scaler.scale(loss);
    EXPECT_EQ(scaled.dtype(), dtype == kFloat64 ? kFloat64 : kFloat32);
    EXPECT_EQ(scaled.to_vector<double>(), std::vector<double>(2, 524288.0));  // beyond float16
  }
  // The tape keeps the scale as it was at its time.
  const Tensor p = Tensor::ones({1}, {.requires_grad = true});
  Tape tape;
  const Tensor scaled = scaler.scale(p.sum());
  scaler.update(2.0);
  tape.backward(scaled);
  EXPECT_EQ(p.grad().item<float>(), 1024.0F);
  EXPECT_EQ(scaler.get_scale(), 2.0);
}

TEST(GradScaler, TheScaleGrowsNoFurtherThanFloat32) {
  const Tensor p = Tensor::zeros({1}, {.dtype = kFloat64, .requires_grad = true});
  SGD sgd({p}, {.lr = 1.0});
  GradScaler scaler({.init_scale = 0x1p126, .growth_interval = 1});
  for (const double expected : {0x1p127, 0x1p127, 0x1p127}) {
    backward(scaler, p, 1.0);
    scaler.step(sgd);
    scaler.update();
    sgd.zero_grad();
    EXPECT_EQ(scaler.get_scale(), expected);
    EXPECT_EQ(growth_tracker(scaler), 0);
  }
  EXPECT_EQ(p.item<double>(), -3.0);
}

TEST(GradScaler, DisabledItIsNotThere) {
  const Tensor p = Tensor::ones({1}, {.requires_grad = true});
  SGD sgd({p}, {.lr = 1.0});
  GradScaler scaler({.enabled = false});
  EXPECT_FALSE(scaler.is_enabled());
  const Tensor loss = p.sum();
  EXPECT_EQ(scaler.scale(loss).impl(), loss.impl());
  backward(scaler, p, 0.25);
  scaler.unscale_(sgd);
  scaler.unscale_(sgd);
  scaler.step(sgd);
  scaler.step(sgd);
  scaler.update();
  scaler.update(-1.0);
  EXPECT_EQ(p.item<float>(), 0.5F);
  EXPECT_EQ(scaler.get_scale(), 1.0);
  EXPECT_TRUE(scaler.state_dict().empty());
  scaler.load_state_dict({{"anything", p}});
}

// Gradients of 1e-9 are 0 in float16, and those of a scale that is too large are infinite.
std::vector<double> trained(bool autocast, bool scaled, Device device) {
  const Tensor x = Tensor::from_vector(testing::reals(32, 5), {8, 4}, {.device = device});
  const Tensor w = Tensor::from_vector(testing::reals(8, 6), {4, 2}, {.device = device}).requires_grad_();
  const Tensor target = Tensor::from_vector(testing::reals(16, 7), {8, 2}, {.device = device});
  SGD sgd({w}, {.lr = 1e8});
  GradScaler scaler({.init_scale = 0x1p60, .backoff_factor = 0x1p-6, .growth_interval = 4, .enabled = scaled});
  std::int64_t steps = 0, calls = 0;
  while (steps < 12 && calls++ < 60) {
    Tape tape;
    Tensor loss;
    if (autocast) {
      const AutocastGuard guard(kFloat16);
      const Tensor y = matmul(x, w);
      EXPECT_EQ(y.dtype(), kFloat16);
      loss = mse_loss(y, target) * 1e-8;
    } else {
      loss = mse_loss(matmul(x, w), target) * 1e-8;
    }
    tape.backward(scaler.scale(loss));
    scaler.step(sgd);
    scaler.update();
    sgd.zero_grad();
    const NamedTensors state = sgd.state_dict();
    steps = state.size() == 1 ? 0 : state[1].second.item<std::int64_t>();
  }
  EXPECT_EQ(steps, 12);
  EXPECT_EQ(calls > 12, scaled);  // the first scales were too large
  return w.to_vector<double>();
}

void expect_small_gradients_to_be_kept(Device device) {
  const std::vector<double> wide = trained(false, false, device), plain = trained(true, false, device);
  const std::vector<double> scaled = trained(true, true, device), begun = testing::reals(8, 6);
  double moved = 0.0;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(plain[i], static_cast<float>(begun[i]));  // every gradient was 0
    EXPECT_NEAR(scaled[i], wide[i], 5e-3);
    moved = std::max(moved, std::abs(wide[i] - begun[i]));
  }
  EXPECT_GT(moved, 0.2);
}

TEST(GradScaler, KeepsSmallGradientsOfFloat16Autocast) { expect_small_gradients_to_be_kept(kCPU); }
TEST(GradScalerCuda, KeepsSmallGradientsOfFloat16Autocast) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_small_gradients_to_be_kept(kCUDA);
}

void expect_a_checkpoint_to_go_on(Device device) {
  struct Training {
    Training(const std::filesystem::path& folder, Device device)
        : p(Tensor::from_vector(testing::reals(5, 9), {5}, {.device = device}).requires_grad_()),
          adam({p}, {.lr = 0.1}),
          checkpoint(folder) {
      checkpoint.add("p", p);
      checkpoint.add("adam", adam);
      checkpoint.add("scaler", scaler);
    }
    void run(int first, int last) {
      for (int t = first; t < last; ++t) {
        backward(scaler, p, t % 5 == 3 ? kInfinity : 0.1 * t);
        scaler.step(adam);
        scaler.update();
        adam.zero_grad();
      }
    }
    std::vector<double> bits() const {
      std::vector<double> all = p.to_vector<double>();
      all.push_back(scaler.get_scale());
      all.push_back(static_cast<double>(growth_tracker(scaler)));
      return all;
    }
    Tensor p;
    Adam adam;
    GradScaler scaler{{.init_scale = 100.0, .growth_factor = 1.5, .backoff_factor = 0.3, .growth_interval = 2}};
    nn::Checkpoint checkpoint;
  };
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / (device.is_cpu() ? "adjoint_scaler" : "adjoint_scaler_cuda");
  std::filesystem::remove_all(folder);
  Training whole(folder, device);
  whole.run(0, 12);
  for (const int stopped : {0, 2, 4, 9}) {
    std::filesystem::remove_all(folder);
    {
      Training begun(folder, device);
      begun.run(0, stopped);
      begun.checkpoint.save(stopped);
    }
    Training resumed(folder, device);
    resumed.run(20, 20 + stopped);  // any earlier value, or nothing
    resumed.checkpoint.resume();
    resumed.run(stopped, 12);
    EXPECT_EQ(resumed.bits(), whole.bits()) << stopped;
  }
  std::filesystem::remove_all(folder);
}

TEST(GradScaler, GoesOnFromACheckpoint) { expect_a_checkpoint_to_go_on(kCPU); }
TEST(GradScalerCuda, GoesOnFromACheckpoint) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_a_checkpoint_to_go_on(kCUDA);
}

TEST(GradScaler, BadOptionsAreErrors) {
  EXPECT_ERROR(GradScaler({.init_scale = 0.0}), "GradScaler: init_scale must be above 0 and finite", "got 0");
  EXPECT_ERROR(GradScaler({.init_scale = 1e39}), "init_scale must be above 0 and finite in float32; got 1e+39");
  EXPECT_ERROR(GradScaler({.init_scale = 1e-60}), "init_scale", "got 1e-60");
  EXPECT_ERROR(GradScaler({.init_scale = std::nan("")}), "init_scale", "got nan");
  EXPECT_ERROR(GradScaler({.growth_factor = 1.0}), "GradScaler: growth_factor must be above 1 and finite; got 1");
  EXPECT_ERROR(GradScaler({.growth_factor = kInfinity}), "growth_factor", "got inf");
  EXPECT_ERROR(GradScaler({.backoff_factor = 1.0}), "GradScaler: backoff_factor must be above 0 and below 1; got 1");
  EXPECT_ERROR(GradScaler({.backoff_factor = std::nan("")}), "backoff_factor", "got nan");
  EXPECT_ERROR(GradScaler({.growth_interval = 0}), "GradScaler: growth_interval must be at least 1; got 0");
}

TEST(GradScaler, CallsOutOfOrderAreErrors) {
  const Tensor p = Tensor::ones({2}, {.requires_grad = true});
  SGD sgd({p}, {.lr = 1.0});
  GradScaler scaler({.init_scale = 2.0});
  EXPECT_ERROR(scaler.unscale_(sgd), "GradScaler::unscale_: a loss must be scaled before");
  EXPECT_ERROR(scaler.step(sgd), "GradScaler::step: a loss must be scaled before");
  EXPECT_ERROR(scaler.update(), "GradScaler::update: a loss must be scaled before");
  EXPECT_ERROR(scaler.update(4.0), "GradScaler::update: a loss must be scaled before");
  EXPECT_ERROR(scaler.scale({}), "GradScaler::scale: loss must be defined");
  EXPECT_ERROR(scaler.scale(Tensor::ones({}, {.dtype = kInt64})), "GradScaler::scale: loss must be floating point",
               "int64");
  static_cast<void>(scaler.scale(Tensor::ones({})));
  EXPECT_ERROR(scaler.step(sgd), "GradScaler::step: a parameter must have a gradient; got none of 1");
  EXPECT_ERROR(scaler.update(), "GradScaler::update: gradients must be unscaled before");
  EXPECT_ERROR(scaler.update(0.0), "GradScaler::update: new_scale must be above 0", "got 0");
  backward(scaler, p, 1.0);
  const NamedTensors state = GradScaler().state_dict();
  scaler.unscale_(sgd);
  EXPECT_ERROR(scaler.unscale_(sgd), "GradScaler::unscale_: it can be called once for an optimiser between updates");
  EXPECT_ERROR(scaler.load_state_dict(state), "load_state_dict (GradScaler): it must come after update(); got 1");
  scaler.step(sgd);
  EXPECT_ERROR(scaler.step(sgd), "GradScaler::step: it can be called once for an optimiser between updates");
  EXPECT_ERROR(scaler.unscale_(sgd), "GradScaler::unscale_: it must come before step(); got a call after it");
  EXPECT_EQ(p.to_vector<double>(), std::vector<double>(2, 0.0));
  scaler.update();
  scaler.load_state_dict(state);
  EXPECT_EQ(scaler.get_scale(), 65536.0);
}

// An optimiser of a program's own, whose first step fails.
class Refuses : public Optimizer {
 public:
  explicit Refuses(const Tensor& p) : Optimizer("Refuses", {p}, 1.0, {}) {}
  bool refuses = true;

 protected:
  void update(const ParameterUpdate& u) override {
    if (std::exchange(refuses, false)) throw Error("Refuses: not now");
    u.parameter.add_(u.gradient, -u.lr);
  }
};

TEST(GradScaler, AStepThatFailsCanBeTakenAgain) {
  const Tensor p = Tensor::ones({2}, {.requires_grad = true});
  Refuses own(p);
  GradScaler scaler({.init_scale = 8.0});
  backward(scaler, p, 0.25);
  EXPECT_ERROR(scaler.step(own), "Refuses: not now");
  scaler.step(own);
  scaler.update();
  EXPECT_EQ(p.to_vector<double>(), std::vector<double>(2, 0.75));  // unscaled once
}

TEST(GradScaler, AStateThatDoesNotFitChangesNothing) {
  GradScaler scaler({.init_scale = 2.0});
  const auto expect = [&](const std::string& name, const Tensor& value, const char* part) {
    NamedTensors state = GradScaler({.init_scale = 32.0, .growth_interval = 7}).state_dict();
    for (auto& [key, tensor] : state) {
      if (key == name) tensor = value;
    }
    EXPECT_ERROR(scaler.load_state_dict(state), part);
    EXPECT_EQ(scaler.get_scale(), 2.0);
    EXPECT_EQ(scaler.get_growth_interval(), 2000);
  };
  expect("scale", Tensor::ones({2}), "'scale' must be one float32; got float32 (2,)");
  expect("scale", Tensor::ones({}, {.dtype = kFloat64}), "'scale' must be one float32; got float64 ()");
  expect("scale", Tensor::full({}, -1.0), "init_scale must be above 0 and finite in float32; got -1");
  expect("growth_factor", Tensor::scalar(0.5, {.dtype = kFloat64}),
         "growth_factor must be above 1 and finite; got 0.5");
  expect("backoff_factor", Tensor::scalar(1.5, {.dtype = kFloat64}), "backoff_factor must be above 0 and below 1");
  expect("growth_interval", Tensor::scalar(0, {.dtype = kInt64}), "'growth_interval' must be at least 1; got 0");
  expect("_growth_tracker", Tensor::scalar(-1, {.dtype = kInt64}), "'_growth_tracker' must not be negative; got -1");
  NamedTensors state = scaler.state_dict();
  state.pop_back();
  EXPECT_ERROR(scaler.load_state_dict(state), "load_state_dict (GradScaler): the state must hold '_growth_tracker'");
  state = scaler.state_dict();
  state.emplace_back("more", Tensor::ones({}));
  EXPECT_ERROR(scaler.load_state_dict(state), "got 'more'");
}

}  // namespace
}  // namespace adjoint::optim

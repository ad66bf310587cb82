// Averages of weights against PyTorch's AveragedModel (tests/fixtures/optim.json), and their state.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/freeze.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/optim/ema.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace adjoint::optim {
namespace {

// The fixture's weight in update t.
std::vector<double> weight_at(std::size_t t) {
  std::vector<double> values = fixture()["start"];
  for (double& value : values) value *= static_cast<double>((t + 1) * (t + 1));
  return values;
}

void expect_averages(DType dtype, Device device, double tolerance) {
  ASSERT_EQ(fixture()["averages"].size(), 3U);
  for (const Json& c : fixture()["averages"]) {
    // Enough for several parallel ranges, chunks of a kernel, and tables.
    std::vector<Tensor> weights;
    for (std::int64_t i = 0; i < 70; ++i) {
      weights.push_back(Tensor::zeros({1 + i * 60, 5}, {.dtype = dtype, .device = device, .requires_grad = true}));
    }
    EMA ema(weights, {.decay = c["decay"], .warmup = c["warmup"]});
    for (std::size_t t = 0; t < c["points"].size(); ++t) {
      const Tensor value = Tensor::from_vector(weight_at(t), {5}, {.dtype = dtype}).to(device);
      for (Tensor& weight : weights) weight.copy_(value.expand(weight.shape()));
      const Tape tape;
      ema.update();
      EXPECT_EQ(tape.size(), 0U);
      const auto expected = c["points"][t].get<std::vector<double>>();
      for (const std::size_t n : {0, 1, 63, 64, 69}) {
        const auto actual = ema.state_dict()[n + 1].second.to_vector<double>();
        for (std::size_t i = 0; i < actual.size(); ++i) {
          ASSERT_NEAR(actual[i], expected[i % 5], tolerance * (1 + std::abs(expected[i % 5]))) << c << t << " " << n;
        }
      }
      EXPECT_EQ(weights[3].to_vector<double>()[14], value.to_vector<double>()[4]);
    }
    EXPECT_EQ(ema.n_averaged(), 8);
  }
}

TEST(EMA, AveragesArePyTorchs) {
  expect_averages(kFloat64, kCPU, 1e-15);
  expect_averages(kFloat32, kCPU, 1e-6);
  expect_averages(kBFloat16, kCPU, 1e-6);  // the fixture's weights are exact in 8 bits of mantissa
}
TEST(EMACuda, AveragesArePyTorchs) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_averages(kFloat64, kCUDA, 1e-15);
  expect_averages(kFloat32, kCUDA, 1e-6);
  expect_averages(kFloat16, kCUDA, 1e-6);
}

// A change of 2^-10 of a weight of 1 is nothing in bfloat16.
TEST(EMA, AveragesOfHalvesAreFloat32) {
  Tensor weight = Tensor::ones({3}, {.dtype = kBFloat16, .requires_grad = true});
  EMA ema({weight}, {.decay = 0.875});
  ema.update();
  weight.fill_(1.0 + 0x1p-7);
  ema.update();
  const Tensor average = ema.state_dict()[1].second;
  EXPECT_EQ(average.dtype(), kFloat32);
  EXPECT_EQ(average.to_vector<float>()[2], 1.0F + 0x1p-10F);
}

TEST(EMA, FollowsWeightsThatAreConverted) {
  nn::Linear layer(2, 2);
  EMA ema(layer, {.decay = 0.5});
  layer.weight.fill_(1.0);
  ema.update();
  for (const DType dtype : {kFloat16, kFloat64, kFloat32}) {
    layer.to(dtype);
    ema.update();
    EXPECT_EQ(ema.state_dict()[1].second.dtype(), dtype == kFloat64 ? kFloat64 : kFloat32);
    EXPECT_EQ(ema.state_dict()[1].second.to_vector<double>()[3], 1.0);
  }
}

TEST(EMA, IsSwappedInAndOut) {
  nn::Linear layer(2, 1);
  layer.weight.fill_(1.0);
  EMA ema(layer, {.decay = 0.5});
  EXPECT_ERROR(ema.apply(), "EMA::apply: there must be an update before; got 0");
  ema.update();
  layer.weight.fill_(3.0);
  ema.update();
  {
    const auto guard = ema.apply();
    EXPECT_EQ(layer.weight.to_vector<float>(), (std::vector<float>{2, 2}));
    EXPECT_TRUE(layer.weight.requires_grad());
    EXPECT_ERROR(ema.update(), "EMA::update: the weights must be the network's own; got the averages");
    EXPECT_ERROR(ema.apply(), "EMA::apply: the weights must be the network's own");
    EXPECT_ERROR(ema.state_dict(), "EMA::state_dict: the weights must be the network's own");
    EXPECT_ERROR(ema.load_state_dict({}), "EMA::load_state_dict: the weights must be the network's own");
  }
  EXPECT_EQ(layer.weight.to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(ema.state_dict()[1].second.to_vector<float>(), (std::vector<float>{2, 2}));
  ema.update();
  EXPECT_EQ(ema.state_dict()[1].second.to_vector<float>(), (std::vector<float>{2.5, 2.5}));
}

// A weight that is converted while the averages are in use gets its earlier value back.
void expect_swaps_of_every_dtype(Device device) {
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    for (const bool converted : {false, true}) {
      nn::Linear layer(70, 300);
      layer.to(dtype);
      layer.to(device);
      EMA ema(layer, {.decay = 0.5});
      for (const double value : {1.0, 3.0}) {
        for (Tensor& p : layer.parameters()) p.fill_(value);
        ema.update();
      }
      {
        const auto guard = ema.apply();
        EXPECT_EQ(layer.weight.to_vector<double>(), std::vector<double>(21000, 2.0));
        EXPECT_EQ(layer.bias.to_vector<double>().back(), 2.0);
        if (converted) layer.to(kFloat64);
      }
      EXPECT_EQ(layer.weight.to_vector<double>(), std::vector<double>(21000, 3.0));
      EXPECT_EQ(layer.bias.to_vector<double>().back(), 3.0);
    }
  }
}
TEST(EMA, SwapsEveryDtype) { expect_swaps_of_every_dtype(kCPU); }
TEST(EMACuda, SwapsEveryDtype) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_swaps_of_every_dtype(kCUDA);
}

// If any single weight was moved meanwhile, every weight gets its earlier value back.
TEST(EMA, PutsBackWhereOneWeightWasMoved) {
  for (const std::size_t moved : {0, 1, 2}) {
    std::vector<nn::Linear> layers;
    std::vector<Tensor> weights;
    for (int i = 0; i < 3; ++i) {
      layers.emplace_back(3, 1, nn::LinearOptions{.bias = false});
      weights.push_back(layers.back().weight);
    }
    EMA ema(weights, {.decay = 0.5});
    for (const double value : {1.0, 3.0}) {
      for (Tensor& weight : weights) weight.fill_(value);
      ema.update();
    }
    {
      const auto guard = ema.apply();
      layers[moved].to(kFloat64);
      for (const Tensor& weight : weights) EXPECT_EQ(weight.to_vector<double>(), std::vector<double>(3, 2.0));
    }
    for (const Tensor& weight : weights) EXPECT_EQ(weight.to_vector<double>(), std::vector<double>(3, 3.0)) << moved;
    EXPECT_EQ(weights[moved].dtype(), kFloat64);
  }
}

// Values of the weights that a tape saved are outdated, both while the averages are in use and after.
TEST(EMA, SwapsCountAsWrites) {
  for (const bool with_averages : {false, true}) {
    nn::Linear layer(2, 1, {.bias = false});
    EMA ema(layer);
    ema.update();
    std::unique_ptr<EMA::Guard> guard;
    if (with_averages) guard.reset(new EMA::Guard(ema.apply()));
    Tape tape;
    Tensor x = Tensor::ones({1, 2});
    const Tensor y = layer(x.requires_grad_()).sum();
    if (with_averages) {
      guard.reset();
    } else {
      guard.reset(new EMA::Guard(ema.apply()));
    }
    EXPECT_ERROR(tape.backward(y), "was changed in place after it was saved");
  }
}

TEST(EMA, ApplyNeedsWeightsThatMayBeWritten) {
  nn::Linear layer(2, 1);
  layer.weight.fill_(1.0);
  EMA ema(layer, {.decay = 0.5});
  ema.update();
  layer.weight.fill_(3.0);
  ema.update();
  {
    layer.eval();
    const nn::Frozen frozen = nn::freeze(layer);
    EXPECT_ERROR(ema.apply(), "EMA::apply: weights must not change while their model is frozen; got shape (1, 2)");
    ema.update();  // reads them
  }
  EXPECT_EQ(layer.weight.to_vector<float>(), (std::vector<float>{3, 3}));
  const auto guard = ema.apply();
  EXPECT_EQ(layer.weight.to_vector<float>(), (std::vector<float>{2.5, 2.5}));
}

TEST(EMA, AveragesWeightsOfAnySize) {
  std::vector<Tensor> weights;
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0}, Shape{2}}) weights.push_back(Tensor::full(shape, 1.0));
  EMA ema(weights, {.decay = 0.5});
  ema.update();
  for (Tensor& weight : weights) weight.fill_(3.0);
  ema.update();
  const auto guard = ema.apply();
  for (const Tensor& weight : weights) {
    EXPECT_EQ(weight.to_vector<double>(), std::vector<double>(static_cast<std::size_t>(weight.numel()), 2.0));
  }
}

TEST(EMA, BuffersAreTheNetworksOrAveraged) {
  for (const bool use_buffers : {false, true}) {
    nn::Sequential net{nn::BatchNorm2d(2)};
    EMA ema(net, {.decay = 0.5, .use_buffers = use_buffers});
    ema.update();
    const auto mean = [&] {
      for (const auto& [name, buffer] : net.named_buffers()) {
        if (name == "0.running_mean") return buffer;
      }
      return Tensor{};
    };
    mean().fill_(4.0);
    ema.update();
    EXPECT_EQ(ema.state_dict().size(), use_buffers ? 5U : 3U);  // num_batches_tracked is an integer
    const auto guard = ema.apply();
    EXPECT_EQ(mean().to_vector<float>()[1], use_buffers ? 2.0F : 4.0F);
  }
}

TEST(EMA, ResumesExactlyFromItsState) {
  nn::Linear a(3, 2), b(3, 2);
  b.load_state_dict(a.state_dict());
  const EMAOptions options{.decay = 0.9, .warmup = true};
  EMA first(a, options), second(b, options);
  for (int t = 0; t < 3; ++t) {
    a.weight.mul_(1.25);
    first.update();
  }
  b.load_state_dict(a.state_dict());
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.n_averaged(), 3);
  for (nn::Linear* layer : {&a, &b}) layer->weight.mul_(1.25);
  first.update();
  second.update();
  const NamedTensors expected = first.state_dict(), actual = second.state_dict();
  EXPECT_EQ(expected[1].first, "module.weight");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].second.to_vector<double>(), expected[i].second.to_vector<double>());
  }
}

TEST(EMA, BadOptionsAndStatesAreErrors) {
  const Tensor p = Tensor::ones({2}, {.requires_grad = true});
  EXPECT_ERROR(EMA({p}, {.decay = 1.0}), "EMA: decay must be in [0, 1); got 1");
  EXPECT_ERROR(EMA({p}, {.decay = std::nan("")}), "EMA: decay must be in [0, 1); got nan");
  EXPECT_ERROR(EMA(std::vector<Tensor>{}), "EMA: there must be a parameter; got an empty list");
  EXPECT_ERROR(EMA({p, Tensor{}}), "EMA: parameters must be defined; got Tensor{} as '1'");
  EXPECT_ERROR(EMA({Tensor::zeros({2}, {.dtype = kInt32})}), "leaves; got int32 (2,) as '0'");
  EMA ema({p});
  ema.update();
  const NamedTensors good = ema.state_dict();
  const auto with = [&](std::size_t i, const Tensor& tensor) {
    NamedTensors state = good;
    state[i].second = tensor;
    return state;
  };
  NamedTensors twice = good, more = good;
  twice.push_back(good[1]);
  more.emplace_back("module.1", p);
  EXPECT_ERROR(ema.load_state_dict({}), "load_state_dict (EMA): the state must hold 'n_averaged'");
  EXPECT_ERROR(ema.load_state_dict({good[0]}), "the state must hold 'module.0'");
  EXPECT_ERROR(ema.load_state_dict(twice), "names must be unique", "got 'module.0' twice");
  EXPECT_ERROR(ema.load_state_dict(with(1, Tensor{})), "every tensor must be defined; got Tensor{} as 'module.0'");
  EXPECT_ERROR(ema.load_state_dict(more), "every name must belong to one of the 1 averages; got 'module.1'");
  EXPECT_ERROR(ema.load_state_dict(with(0, Tensor::scalar(1.0))), "'n_averaged' must be one int64", "got float32 ()");
  EXPECT_ERROR(ema.load_state_dict(with(0, Tensor::scalar(-1, {.dtype = kInt64}))), "not be negative; got -1");
  EXPECT_ERROR(ema.load_state_dict(with(1, Tensor::ones({3}))), "'module.0' must be float32 (2,)", "got float32 (3,)");
  EXPECT_ERROR(ema.load_state_dict(with(1, Tensor::ones({2}, {.dtype = kFloat64}))), "got float64 (2,)");
  EXPECT_EQ(ema.n_averaged(), 1);
}

}  // namespace
}  // namespace adjoint::optim

// weight_norm and spectral_norm against PyTorch's (fixtures/make_reparametrize.py), in modules, files and Sequentials.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/reparametrize.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/fixtures.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using nlohmann::json;
using testing::expect_near;
using testing::expect_same_bits;

Tensor tensor(const json& entry) {
  return Tensor::from_vector(entry["data"].get<std::vector<double>>(),
                             Shape(entry["shape"].get<std::vector<std::int64_t>>()), {.dtype = kFloat64});
}

NamedTensors state(const json& entries) {
  NamedTensors all;
  for (const auto& [name, entry] : entries.items()) all.emplace_back(name, tensor(entry));
  return all;
}

// f(layer), of the entry's layer before it is reparametrised.
template <class F>
void with_layer(const json& entry, const F& f) {
  const std::string layer = entry["layer"];
  if (layer == "Conv1d") f(Conv1d(2, 3, {.kernel_size = 3, .padding = 1}));
  if (layer == "ConvTranspose1d") f(ConvTranspose1d(2, 3, {.kernel_size = 4, .stride = 2, .padding = 1}));
  if (layer == "Conv2d") f(Conv2d(2, 3, {.kernel_size = 3, .padding = 1}));
  if (layer == "ConvTranspose2d") f(ConvTranspose2d(2, 3, {.kernel_size = 2, .stride = 2}));
  if (layer == "Linear") f(Linear(3, 2));
}

template <class M>
M reparametrised(const json& entry, M layer) {
  layer.to(kFloat64);
  if (entry["kind"] == "weight_norm") {
    return weight_norm(layer, {.dim = entry["layer"] == "Linear" ? std::optional<std::int64_t>() : 0});
  }
  return spectral_norm(layer, {.n_power_iterations = entry["layer"] == "ConvTranspose2d" ? 2 : 1});
}

TEST(Reparametrize, MatchesPyTorchUnderBothSpellings) {
  std::ifstream file(testing::fixture("reparametrize.json"));
  for (const json& entry : json::parse(file)) {
    SCOPED_TRACE(entry["kind"].get<std::string>() + " of " + entry["layer"].get<std::string>());
    for (const char* spelling : {"state", "renamed"}) {
      with_layer(entry, [&](auto layer) {
        auto module = reparametrised(entry, layer);
        module.load_state_dict(state(entry[spelling]));
        const Tensor x = tensor(entry["input"]);
        Tape tape;
        const Tensor y = module(x);
        expect_near("output", y, tensor(entry["output"]).template to_vector<double>(), 1e-12);
        tape.backward((y * tensor(entry["weights"])).sum());
        const NamedTensors parameters = module.named_parameters();
        EXPECT_EQ(parameters.size(), entry["gradients"].size());
        for (const auto& [name, parameter] : parameters) {
          expect_near(name, parameter.grad(), tensor(entry["gradients"][name]).template to_vector<double>(), 1e-11);
        }
        for (const auto& [name, buffer] : module.named_buffers()) {
          expect_near(name, buffer, tensor(entry["buffers"][name]).template to_vector<double>(), 1e-12);
        }
        module.eval();
        expect_near("weight", module.weight, tensor(entry["weight"]).template to_vector<double>(), 1e-12);
      });
    }
  }
}

TEST(Reparametrize, WeightNormIsItsFormulaAlongEveryAxis) {
  manual_seed(8);
  const std::vector<std::pair<std::optional<std::int64_t>, Dims>> slices{{0, {1, 2, 3}},
                                                                         {1, {0, 2, 3}},
                                                                         {-1, {0, 1, 2}},
                                                                         {std::nullopt, {0, 1, 2, 3}}};
  for (const auto& slice : slices) {
    const std::optional<std::int64_t> dim = slice.first;
    const Dims others = slice.second;
    SCOPED_TRACE(dim.value_or(99));
    Conv2d conv(3, 2, {.kernel_size = {2, 5}});
    conv.to(kFloat64);
    weight_norm(conv, {.dim = dim});
    Tensor g = conv.named_parameters()[1].second;
    const Tensor v = conv.named_parameters()[2].second;
    g.uniform_(-2.0, 2.0);
    const Tensor direction = Tensor::randn(v.shape(), v.options());
    const auto values_and_gradients = [&](const auto& weight) {
      std::vector<Tensor> found;
      Tape tape;
      found.push_back(weight());
      tape.backward((found[0] * direction).sum());
      for (const Tensor& p : {g, v}) {
        found.push_back(p.grad().clone());
        p.grad().fill_(0.0);
      }
      return found;
    };
    const auto made = values_and_gradients([&] { return conv.weight + 0.0; });
    const auto expected = values_and_gradients([&] { return v * (g / sqrt(square(v).sum(others, true))); });
    for (std::size_t i = 0; i < made.size(); ++i)
      expect_near("weight and gradients", made[i], expected[i].to_vector<double>(), 1e-13);
  }
}

TEST(Reparametrize, WeightNormChangesNothingAtFirstAndComesOff) {
  manual_seed(1);
  Conv1d conv(2, 3, {.kernel_size = 3});
  const Tensor x = Tensor::randn({1, 2, 8}), before = conv(x), weight = conv.weight.clone();
  const Conv1d same_conv = weight_norm(conv);
  EXPECT_TRUE(same_conv == conv);
  EXPECT_EQ(names(conv.named_parameters()), (std::vector<std::string>{"bias", "weight_g", "weight_v"}));
  EXPECT_EQ(conv.weight.shape(), (Shape{3, 2, 3}));
  expect_near("forward", conv(x), before.to_vector<double>(), 1e-6);
  Tensor g = conv.named_parameters()[1].second;
  g.mul_(2.0);
  expect_near("twice", conv.weight, (weight * 2.0).to_vector<double>(), 1e-6);
  const Tensor after = conv(x);
  remove_weight_norm(conv);
  EXPECT_EQ(names(conv.named_parameters()), (std::vector<std::string>{"weight", "bias"}));
  expect_same_bits("removed", conv(x), after);
  EXPECT_TRUE(conv.weight.requires_grad());
  conv.weight.fill_(1.0);
  conv.weight = weight;
  expect_same_bits("assigned", conv(x), before);
}

TEST(Reparametrize, SpectralNormIteratesInTrainingAlone) {
  manual_seed(2);
  Conv2d conv = spectral_norm(Conv2d(2, 4, {.kernel_size = 3}));
  const Tensor u = conv.named_buffers()[0].second;
  const std::vector<float> first = values(u);
  conv.eval();
  const Tensor x = Tensor::randn({1, 2, 5, 5}), y = conv(x);
  EXPECT_EQ(values(u), first);
  conv.train();
  for (int i = 0; i < 30; ++i) conv(x);
  EXPECT_NE(values(u), first);
  conv.eval();
  const Tensor rows = conv.weight.reshape({4, 18});
  // The largest singular value is 1: no vector is made longer, and u's own keeps its length.
  const Tensor along = (rows * u.reshape({4, 1})).sum({0});
  EXPECT_NEAR((along * along).sum().item<double>(), 1.0, 1e-4);
  const Tensor kept = conv(x);
  remove_spectral_norm(conv);
  EXPECT_TRUE(conv.named_buffers().empty());
  expect_same_bits("removed", conv(x), kept);
}

// Two calls in training on one tape: the second moves the buffers, and the first's gradient is as if it had not.
TEST(Reparametrize, SpectralNormOfTwoCallsOnATapeDifferentiates) {
  manual_seed(3);
  Linear linear = spectral_norm(Linear(3, 2));
  const Tensor x = Tensor::randn({4, 3});
  Tape tape;
  const Tensor y = linear(x) + linear(x * 2.0);
  EXPECT_NO_THROW(tape.backward(y.sum()));
}

TEST(Reparametrize, SequentialsStillFuseAndTrainTheParts) {
  manual_seed(4);
  Conv1d conv(2, 3, {.kernel_size = 3, .padding = 1}), plain(2, 3, {.kernel_size = 3, .padding = 1});
  plain.load_state_dict(conv.state_dict());
  const Sequential net{weight_norm(conv), LeakyReLU({.negative_slope = 0.1})};
  EXPECT_EQ(names(net.named_parameters()), (std::vector<std::string>{"0.bias", "0.weight_g", "0.weight_v"}));
  Tape tape;
  const Tensor x = Tensor::randn({1, 2, 6});
  const std::size_t before = tape.size();
  const Tensor w = conv.weight;
  const std::size_t of_weight = tape.size() - before;
  const Tensor y = net(x);
  const std::size_t parts = 2, bias = 1, fused = 1;  // leaves enter once
  EXPECT_EQ(tape.size() - before, of_weight + (of_weight - parts) + bias + fused);
  expect_near("as the plain one", y, leaky_relu(plain(x), 0.1).to_vector<double>(), 1e-6);
}

TEST(Reparametrize, SavesAndLoadsFiles) {
  manual_seed(5);
  const auto path = std::filesystem::temp_directory_path() / "adjoint_reparametrize_test.safetensors";
  const Sequential net{weight_norm(Conv1d(1, 2, {.kernel_size = 3}))};
  NamedTensors renamed;
  for (const auto& [name, value] : net.state_dict()) {
    const bool g = name == "0.weight_g", v = name == "0.weight_v";
    renamed.emplace_back(g   ? "0.parametrizations.weight.original0"
                         : v ? "0.parametrizations.weight.original1"
                             : name,
                         value);
  }
  for (const NamedTensors& saved : {net.state_dict(), renamed}) {
    save_safetensors(path, saved);
    Sequential other{weight_norm(Conv1d(1, 2, {.kernel_size = 3}))};
    load_safetensors(path, other);
    const Tensor x = Tensor::ones({1, 1, 5});
    expect_same_bits("loaded", other(x), net(x));
  }
  std::filesystem::remove(path);
}

TEST(Reparametrize, FollowsModulesThatMoveAndAreAssigned) {
  manual_seed(6);
  Scaled a, b;
  weight_norm(a.conv);
  a.to(kFloat64);
  EXPECT_EQ(a.conv.weight.dtype(), kFloat64);
  b = a;
  EXPECT_EQ(values(b.conv.weight), values(a.conv.weight));
  b.named_parameters()[1].second.mul_(3.0);
  EXPECT_EQ(values(b.conv.weight), values(a.conv.weight));
  a.conv = pointwise(5.0);
  EXPECT_EQ(values(b.conv.weight), std::vector<float>{5.0F});
}

TEST(Reparametrize, SaysWhatIsWrong) {
  Conv1d conv = weight_norm(Conv1d(1, 1, {.kernel_size = 1}));
  EXPECT_ERROR(weight_norm(conv), "weight_norm: the module must have the parameter, made by nothing else", "'weight'");
  EXPECT_ERROR(spectral_norm(conv), "spectral_norm: ", "'weight'");
  EXPECT_ERROR(weight_norm(Linear(1, 1), {.name = "scale"}), "weight_norm: ", "'scale' for Linear");
  EXPECT_ERROR(weight_norm(Linear(1, 1), {.dim = 2}), "weight_norm: ", "2");
  EXPECT_ERROR(spectral_norm(Linear(1, 1), {.n_power_iterations = 0}), "spectral_norm: n_power_iterations", "got 0");
  EXPECT_ERROR(spectral_norm(Linear(1, 1), {.eps = 0.0}), "spectral_norm: eps", "got 0");
  EXPECT_ERROR(conv.weight.fill_(1.0), "which weight_norm makes");
  EXPECT_ERROR(conv.weight = Tensor::ones({1, 1, 1}), "which weight_norm makes");
  EXPECT_ERROR(remove_spectral_norm(conv), "remove_spectral_norm: spectral_norm must make the parameter", "'weight'");
  EXPECT_ERROR(remove_weight_norm(Linear(1, 1)), "remove_weight_norm: weight_norm must make the parameter");
  EXPECT_ERROR(conv.reparametrize("bias", {.kind = "shrunk",
                                           .parts = {{.name = "bias_all", .value = Tensor::ones({2})}},
                                           .make = [](const std::vector<Tensor>& parts, bool) { return parts[0]; }}),
               "shrunk: the computed tensor must have the parameter's shape and dtype; got float32 (2,)");
  EXPECT_EQ(names(conv.named_parameters()), (std::vector<std::string>{"bias", "weight_g", "weight_v"}));
}

}  // namespace
}  // namespace adjoint::nn

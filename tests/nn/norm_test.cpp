// Normalisation as modules: running statistics, modes, names, folding, and refused arguments.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/fixtures.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

void expect_close(const std::string& what, const Tensor& actual, const Tensor& expected, double tolerance) {
  EXPECT_EQ(actual.shape(), expected.shape()) << what;
  testing::expect_near(what, actual, expected.to_vector<double>(), tolerance);
}

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors) all.push_back(name);
  return all;
}

Tensor random(const Shape& shape) { return Tensor::randn(shape, {.dtype = kFloat64}); }

template <class M>
M wide(M module) {
  module.to(kFloat64);
  return module;
}

TEST(BatchNorm, FollowsItsBatches) {
  const BatchNorm2d norm = wide(BatchNorm2d(3, {.momentum = 0.25}));
  Tensor mean = Tensor::zeros({3}, {.dtype = kFloat64}), variance = Tensor::ones({3}, {.dtype = kFloat64});
  for (int step = 0; step < 3; ++step) {
    const Tensor x = random({2, 3, 4, 5}) * 3.0 + 1.0;
    const Tensor y = norm(x);
    mean = mean * 0.75 + x.mean({0, 2, 3}) * 0.25;
    variance = variance * 0.75 + var(x, {0, 2, 3}) * 0.25;
    expect_close("mean", norm.running_mean, mean, 1e-14);
    expect_close("variance", norm.running_var, variance, 1e-14);
    expect_close("normalised", y.mean({0, 2, 3}), Tensor::zeros({3}, {.dtype = kFloat64}), 1e-14);
    EXPECT_EQ(norm.num_batches_tracked.item<int>(), step + 1);
  }
}

TEST(BatchNorm, WithoutMomentumAveragesAllBatches) {
  const BatchNorm1d norm = wide(BatchNorm1d(2, {.momentum = {}}));
  const Tensor a = random({4, 2}), b = random({4, 2});
  norm(a);
  norm(b);
  expect_close("mean", norm.running_mean, (a.mean({0}) + b.mean({0})) / 2.0, 1e-14);
  expect_close("variance", norm.running_var, (var(a, {0}) + var(b, {0})) / 2.0, 1e-14);
}

TEST(BatchNorm, WithoutMomentumLeavesEmptyBatchesOut) {
  const BatchNorm1d norm = wide(BatchNorm1d(2, {.momentum = {}}));
  const Tensor a = random({4, 2}), b = random({4, 2}), none = Tensor::zeros({0, 2}, {.dtype = kFloat64});
  norm(none);
  norm(a);
  norm(none);
  norm(none);
  norm(b);
  expect_close("mean", norm.running_mean, (a.mean({0}) + b.mean({0})) / 2.0, 1e-14);
  expect_close("variance", norm.running_var, (var(a, {0}) + var(b, {0})) / 2.0, 1e-14);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 2);
}

TEST(InstanceNorm, WithoutMomentumAveragesAllBatches) {
  InstanceNorm1d norm = wide(InstanceNorm1d(2, {.momentum = {}, .track_running_stats = true}));
  const Tensor a = random({3, 2, 5}), b = random({4, 2, 7}), none = Tensor::zeros({0, 2, 5}, {.dtype = kFloat64});
  norm(a);
  norm(none);
  norm(b);
  const Tensor mean = (a.mean({0, 2}) + b.mean({0, 2})) / 2.0;
  expect_close("mean", norm.running_mean, mean, 1e-14);
  expect_close("variance", norm.running_var, (var(a, {2}).mean({0}) + var(b, {2}).mean({0})) / 2.0, 1e-14);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 2);
  norm.eval();
  norm(a);
  expect_close("eval", norm.running_mean, mean, 1e-14);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 2);
  // An unbatched sample is a batch of one.
  norm.train();
  norm(a.select(0, 0));
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 3);
}

TEST(GroupNorm, RefusesOneValueAGroup) {
  EXPECT_ERROR(GroupNorm(4, 4)(Tensor::ones({1, 4})), "GroupNorm: there must be more than 1 value for each group",
               "4 groups", "(1, 4)");
  EXPECT_ERROR(group_norm(Tensor::ones({1, 6, 1, 1}), 6), "group_norm: ", "more than 1 value");
  EXPECT_EQ(group_norm(Tensor::ones({1, 6, 1, 1}), 3).shape(), Shape({1, 6, 1, 1}));
  EXPECT_EQ(group_norm(Tensor::ones({0, 4}), 4).shape(), Shape({0, 4}));
}

TEST(BatchNorm, UsesRunningStatisticsInEvalMode) {
  BatchNorm1d norm = wide(BatchNorm1d(2));
  norm.weight.copy_(Tensor::from_vector<double>({2, 3}, {2}, {.dtype = kFloat64}));
  norm.bias.copy_(Tensor::from_vector<double>({1, -1}, {2}, {.dtype = kFloat64}));
  norm.running_mean.copy_(Tensor::from_vector<double>({0.5, -1}, {2}, {.dtype = kFloat64}));
  norm.running_var.copy_(Tensor::from_vector<double>({4, 0.25}, {2}, {.dtype = kFloat64}));
  norm.eval();
  const Tensor x = Tensor::from_vector<double>({1, 2, 3, 4, 5, 6}, {3, 2}, {.dtype = kFloat64});
  const Tensor first = norm(x), again = norm(x);
  expect_close("values", first, Tensor::from_vector<double>({1.5, 17, 3.5, 29, 5.5, 41}, {3, 2}, {.dtype = kFloat64}),
               1e-3);
  expect_same_bits("unchanged", first, again);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 0);

  BatchNorm1d own = wide(BatchNorm1d(2, {.track_running_stats = false}));
  const Tensor trained = own(x);
  own.eval();
  expect_same_bits("own statistics in either mode", own(x), trained);
}

TEST(BatchNorm, WhatThrowsChangesNothing) {
  const BatchNorm1d norm(2);
  EXPECT_ERROR(norm(Tensor::ones({1, 2})), "BatchNorm1d: ", "more than 1 value");
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 0);
  EXPECT_EQ(norm.running_mean.to_vector<double>(), std::vector<double>({0, 0}));
}

TEST(Norm, OfTooManyFeaturesNamesTheLayer) {
  const std::int64_t huge = std::int64_t{1} << 61;
  EXPECT_ERROR(BatchNorm2d(huge), "BatchNorm2d: ");
  EXPECT_ERROR(InstanceNorm1d(huge, {.affine = true}), "InstanceNorm1d: ");
  EXPECT_ERROR(LayerNorm({huge, 2}), "LayerNorm: ");
  EXPECT_ERROR(GroupNorm(1, huge), "GroupNorm: ");
  EXPECT_ERROR(RMSNorm(huge), "RMSNorm: ");
}

TEST(Norm, HasPyTorchsNames) {
  EXPECT_EQ(names(BatchNorm2d(3).state_dict()),
            (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(names(InstanceNorm1d(3).state_dict()), std::vector<std::string>{});
  EXPECT_EQ(names(InstanceNorm2d(3, {.affine = true}).state_dict()), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(names(LayerNorm({3, 4}).state_dict()), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(names(LayerNorm(4, {.bias = false}).state_dict()), std::vector<std::string>{"weight"});
  EXPECT_EQ(names(GroupNorm(2, 4).state_dict()), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(names(RMSNorm(4).state_dict()), std::vector<std::string>{"weight"});
  EXPECT_EQ(to_string(BatchNorm2d(16)),
            "BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)");
  EXPECT_EQ(to_string(BatchNorm1d(2, {.momentum = {}})),
            "BatchNorm1d(2, eps=1e-05, momentum=None, affine=True, track_running_stats=True)");
  EXPECT_EQ(to_string(LayerNorm({3, 4})), "LayerNorm((3, 4), eps=1e-05, elementwise_affine=True)");
  EXPECT_EQ(to_string(GroupNorm(3, 6)), "GroupNorm(3, 6, eps=1e-05, affine=True)");
  EXPECT_EQ(to_string(RMSNorm(5)), "RMSNorm((5,), eps=None, elementwise_affine=True)");
}

TEST(Norm, ModulesCallTheFunctions) {
  const Tensor x = Tensor::randn({2, 4, 6}), r = Tensor::randn({2, 4, 6});
  const NormFusion behind{.activation = Activation::relu(), .residual = r};
  const Tensor ones = Tensor::ones({4}), zeros = Tensor::zeros({4});
  expect_same_bits("group", GroupNorm(2, 4, {.eps = 0.1})(x, behind), group_norm(x, 2, ones, zeros, 0.1, behind));
  expect_same_bits("instance", InstanceNorm1d(4)(x, behind), instance_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, behind));
  expect_same_bits("batch", BatchNorm1d(4)(x, behind), batch_norm(x, {}, {}, ones, zeros, true, 0.1, 1e-5, behind));
  expect_same_bits("layer", LayerNorm(6)(x, behind),
                   layer_norm(x, {6}, Tensor::ones({6}), Tensor::zeros({6}), 1e-5, behind));
  expect_same_bits("rms", RMSNorm(6)(x, behind), rms_norm(x, {6}, Tensor::ones({6}), {}, behind));
  const Tensor one = x.select(0, 1);
  expect_same_bits("unbatched", InstanceNorm1d(4)(one), InstanceNorm1d(4)(x).select(0, 1));
}

TEST(InstanceNorm, TracksTheMeanOfItsSamples) {
  InstanceNorm1d norm = wide(InstanceNorm1d(2, {.momentum = 0.5, .track_running_stats = true}));
  const Tensor x = random({3, 2, 5});
  norm(x);
  expect_close("mean", norm.running_mean, x.mean({0, 2}) * 0.5, 1e-14);
  expect_close("variance", norm.running_var, var(x, {2}).mean({0}) * 0.5 + 0.5, 1e-14);
  norm.eval();
  const Tensor by_running = norm(x.select(0, 0));
  expect_close("given", by_running,
               (x.select(0, 0) - norm.running_mean.reshape({2, 1})) / sqrt(norm.running_var.reshape({2, 1}) + 1e-5),
               1e-14);
}

TEST(Norm, TakesTheActivationBehindItInASequential) {
  const Tensor x = Tensor::randn({3, 4, 5}, {.requires_grad = true});
  const auto operations = [&](const Sequential& net) {
    Tape tape;
    const Tensor y = net(x);
    return tape.size() - net.parameters().size() - 1;
  };
  // The second result of an operator, its statistics, is a separate entry.
  EXPECT_EQ(operations(Sequential(BatchNorm1d(4), ReLU())), operations(Sequential(BatchNorm1d(4))));
  EXPECT_EQ(operations(Sequential(GroupNorm(2, 4), SiLU())), operations(Sequential(GroupNorm(2, 4))));
  const LayerNorm norm(5);
  expect_same_bits("value", Sequential(norm, Tanh())(x), tanh(norm(x)));
  expect_close("gelu", Sequential(norm, GELU())(x), gelu(norm(x)), 0.0);
}

template <class Conv, class Norm>
void expect_folds(const Conv& conv, std::int64_t out, const Tensor& x) {
  Norm norm = wide(Norm(out));
  norm.weight.uniform_(0.5, 2.0);
  norm.bias.normal_(0.0, 1.0);
  norm.running_mean.normal_(0.0, 1.0);
  norm.running_var.uniform_(0.5, 2.0);
  norm.eval();
  const Generator before = default_generator();
  const Conv folded = fold_batch_norm(conv, norm);
  EXPECT_EQ(default_generator().offset(), before.offset());
  expect_close("folded", folded(x), norm(conv(x)), 1e-13);
  EXPECT_FALSE(folded.training());
}

TEST(FoldBatchNorm, ComputesTheNormOfTheConvolution) {
  const Tensor line = random({2, 4, 7}), image = random({2, 4, 5, 6}), volume = random({2, 4, 3, 5, 4});
  expect_folds<Conv1d, BatchNorm1d>(wide(Conv1d(4, 6, {.kernel_size = 3, .groups = 2})), 6, line);
  expect_folds<Conv2d, BatchNorm2d>(wide(Conv2d(4, 3, {.kernel_size = 3, .padding = 1, .bias = false})), 3, image);
  expect_folds<ConvTranspose1d, BatchNorm1d>(wide(ConvTranspose1d(4, 6, {.kernel_size = 4, .stride = 2, .groups = 2})),
                                             6, line);
  expect_folds<ConvTranspose2d, BatchNorm2d>(wide(ConvTranspose2d(4, 3, {.kernel_size = 2, .stride = 2})), 3, image);
  expect_folds<Conv3d, BatchNorm3d>(wide(Conv3d(4, 6, {.kernel_size = 3, .groups = 2, .causal = true})), 6, volume);
  expect_folds<ConvTranspose3d, BatchNorm3d>(wide(ConvTranspose3d(4, 6, {.kernel_size = 2, .groups = 2})), 6, volume);
  const Conv1d conv(1, 2, {.kernel_size = 1});
  EXPECT_ERROR(fold_batch_norm(conv, BatchNorm1d(3)), "fold_batch_norm: ", "3 and 2");
  EXPECT_ERROR(fold_batch_norm(conv, BatchNorm1d(2, {.track_running_stats = false})), "fold_batch_norm: ", "track");
}

// tests/fixtures/make_norm_layers.py's ModuleDict.
class PyTorchs : public Module {
 public:
  PyTorchs() : Module("ModuleDict") {
    add("layer_norm", LayerNorm({3, 4}));
    add("layer_norm_plain", LayerNorm(4, {.eps = 1e-3, .elementwise_affine = false}));
    add("group_norm", GroupNorm(2, 4));
    add("group_norm_plain", GroupNorm(4, 4, {.eps = 1e-3, .affine = false}));
    add("instance_norm1d", InstanceNorm1d(3, {.affine = true, .track_running_stats = true}));
    add("instance_norm2d",
        InstanceNorm2d(3, {.eps = 1e-3, .momentum = 0.3, .affine = true, .track_running_stats = true}));
    add("instance_norm2d_plain", InstanceNorm2d(3));
    add("batch_norm1d", BatchNorm1d(3, {.momentum = std::nullopt}));
    add("batch_norm2d", BatchNorm2d(3, {.eps = 1e-3, .momentum = 0.3}));
    add("instance_norm3d", InstanceNorm3d(3, {.affine = true, .track_running_stats = true}));
    add("batch_norm3d", BatchNorm3d(3, {.momentum = 0.3}));
  }
  std::vector<std::pair<std::string, Layer>> layers;

 private:
  template <class M>
  void add(const std::string& name, const M& layer) {
    register_module(name, layer);
    layers.emplace_back(name, layer);
  }
};

TEST(Norm, MatchesPyTorchsStatesInBothModes) {
  PyTorchs module;
  module.to(kFloat64);
  load_safetensors(testing::fixture("norm_layers.safetensors"), module);
  std::map<std::string, Tensor> expected;
  for (const auto& [name, tensor] : load_safetensors(testing::fixture("norm_layers_expected.safetensors")).tensors) {
    expected.emplace(name, tensor);
  }
  std::size_t compared = 0;
  for (auto& [name, layer] : module.layers) {
    const Tensor x = expected.at(name + ".input");
    expect_close(name + " in training", layer(x), expected.at(name + ".train"), 1e-12);
    for (const auto& [buffer, value] : layer.named_buffers()) {
      expect_close(name + "'s " + buffer, value, expected.at(name + ".after." + buffer), 1e-13);
      ++compared;
    }
    layer.eval();
    expect_close(name + " in eval mode", layer(x), expected.at(name + ".eval"), 1e-12);
    compared += 3;
  }
  EXPECT_EQ(compared, expected.size());
}

TEST(Norm, SaysWhatIsWrong) {
  EXPECT_ERROR(BatchNorm1d(0), "BatchNorm1d: ", "num_features");
  EXPECT_ERROR(BatchNorm1d(2)(Tensor::ones({2, 2, 2, 2})), "BatchNorm1d: ", "2 or 3 axes", "(2, 2, 2, 2)");
  EXPECT_ERROR(BatchNorm2d(2)(Tensor::ones({2, 3, 2, 2})), "BatchNorm2d: ", "2 channels", "(2, 3, 2, 2)");
  EXPECT_ERROR(BatchNorm2d(2)(Tensor()), "BatchNorm2d: ", "input");
  EXPECT_ERROR(BatchNorm3d(2)(Tensor::ones({2, 2, 2, 2})), "BatchNorm3d: input must have 5 axes", "(2, 2, 2, 2)");
  EXPECT_ERROR(InstanceNorm3d(2)(Tensor::ones({2, 2, 2})), "InstanceNorm3d: ", "4 or 5 axes");
  EXPECT_ERROR(InstanceNorm2d(2)(Tensor::ones({2, 2})), "InstanceNorm2d: ", "3 or 4 axes");
  EXPECT_ERROR(GroupNorm(2, 3), "GroupNorm: ", "2 groups", "3 channels");
  EXPECT_ERROR(GroupNorm(2, 4)(Tensor::ones({2, 6})), "GroupNorm: ", "(4,)");
  EXPECT_ERROR(LayerNorm(Shape{}), "LayerNorm: ", "normalized_shape");
  EXPECT_ERROR(LayerNorm(4)(Tensor::ones({4, 3})), "LayerNorm: ", "(4,)", "(4, 3)");
  EXPECT_ERROR(RMSNorm({2, 0}), "RMSNorm: ", "(2, 0)");
}

}  // namespace
}  // namespace adjoint::nn

// A convolution and the activation behind it in a Sequential: one operation, and otherwise as if they were two.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

// The layers one after the other, each for itself.
Tensor one_by_one(const Sequential& net, const Tensor& input) {
  Tensor value = input;
  for (const Layer& layer : net) value = layer(value);
  return value;
}

std::size_t operations(const Sequential& net, const Tensor& input) {
  Tape tape;
  const Tensor result = net(input);
  return tape.size() - net.parameters().size() - 1;  // beside the leaves
}

std::vector<Tensor> gradients(Sequential& net, const Tensor& input, bool separately) {
  net.zero_grad();
  Tape tape;
  const Tensor y = separately ? one_by_one(net, input) : net(input);
  tape.backward((y * y).sum());
  std::vector<Tensor> all;
  for (const Tensor& parameter : net.parameters()) all.push_back(parameter.grad());
  return all;
}

Sequential upscaler() {
  return Sequential(Conv2d(3, 4, {.kernel_size = 3, .padding = 1}), LeakyReLU({.negative_slope = 0.2}),
                    ConvTranspose2d(4, 6, {.kernel_size = 4, .stride = 2, .padding = 1}), ReLU(),
                    ConvTranspose2d(6, 4, {.kernel_size = 3, .stride = 3, .output_padding = 1, .groups = 2}), SiLU(),
                    Conv2d(4, 4, {.kernel_size = 1, .bias = false}), Tanh(), Sigmoid());
}

TEST(SequentialFusion, HasTheBitsOfTheLayersOneByOne) {
  manual_seed(5);
  Sequential net = upscaler();
  const Tensor x = Tensor::randn({2, 3, 5, 6});
  for (const bool training : {true, false}) {
    net.train(training);
    testing::expect_same_bits("result", net(x), one_by_one(net, x));
    const std::vector<Tensor> fused = gradients(net, x, false), separate = gradients(net, x, true);
    for (std::size_t i = 0; i < fused.size(); ++i) {
      testing::expect_same_bits("gradient " + std::to_string(i), fused[i], separate[i]);
    }
  }
  Sequential line(Conv1d(3, 4, {.kernel_size = 3}), Sigmoid(), ConvTranspose1d(4, 2, {.kernel_size = 5, .stride = 2}),
                  Tanh());
  const Tensor v = Tensor::randn({3, 11});
  testing::expect_same_bits("unbatched", line(v), one_by_one(line, v));
  Sequential volumes(Conv3d(3, 4, 3), ReLU(), ConvTranspose3d(4, 2, 2, 2), Tanh());
  const Tensor volume = Tensor::randn({1, 3, 4, 5, 6});
  testing::expect_same_bits("volume", volumes(volume), one_by_one(volumes, volume));
}

TEST(SequentialFusion, RecordsOneOperationForAPair) {
  const Tensor x = Tensor::randn({1, 2, 6}, {.requires_grad = true});
  const Conv1d conv(2, 2, {.kernel_size = 3, .padding = 1});
  EXPECT_EQ(operations(Sequential(conv, ReLU()), x), 1U);
  EXPECT_EQ(operations(Sequential(conv, SiLU()), x), 1U);
  EXPECT_EQ(operations(Sequential(conv, ReLU(), ReLU()), x), 2U);
  EXPECT_EQ(operations(Sequential(ReLU(), conv), x), 2U);
  const Tensor volume = Tensor::randn({1, 2, 3, 3, 3}, {.requires_grad = true});
  EXPECT_EQ(operations(Sequential(Conv3d(2, 2, 3), ReLU()), volume), 1U);
  EXPECT_EQ(operations(Sequential(ConvTranspose3d(2, 2, 3), ReLU()), volume), 1U);
  EXPECT_EQ(operations(Sequential(conv, Identity(), ReLU()), x), 2U);
  EXPECT_EQ(operations(Sequential(conv, [](const Tensor& t) { return relu(t); }), x), 2U);
  Sequential grown;
  grown.append(conv);
  const Sequential copy = grown;
  EXPECT_EQ(operations(copy, x), 1U);
  grown.append("act", Tanh());
  EXPECT_EQ(operations(copy, x), 1U);
  testing::expect_same_bits("appended", copy(x), adjoint::tanh(conv(x)));
}

class Doubled : public ReLU {
 public:
  Tensor operator()(const Tensor& x) const { return relu(x) * 2.0; }
};
class Shifted : public Conv1d {
 public:
  using Conv1d::Conv1d;
  Tensor operator()(const Tensor& x) const { return Conv1d::operator()(x) + 1.0; }
};

TEST(SequentialFusion, DerivedModulesComputeWhatTheySay) {
  const Tensor x = Tensor::randn({1, 2, 6});
  const Conv1d conv(2, 2, {.kernel_size = 3});
  const Shifted shifted(2, 2, Conv1dOptions{.kernel_size = 3});
  testing::expect_same_bits("activation", Sequential(conv, Doubled())(x), relu(conv(x)) * 2.0);
  testing::expect_same_bits("convolution", Sequential(shifted, ReLU())(x), relu(shifted(x)));
}

TEST(SequentialFusion, LeavesTheTreeAsItIs) {
  const Sequential net = upscaler();
  EXPECT_EQ(net.size(), 9U);
  EXPECT_EQ(net[1].as<LeakyReLU>().activation(), Activation::leaky_relu(0.2));
  EXPECT_EQ(net[0].get_if<ReLU>(), nullptr);
  EXPECT_EQ(net.named_children()[3].second.type(), "ReLU");
  std::vector<std::string> names;
  for (const auto& [name, tensor] : net.state_dict()) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias", "6.weight"}));
}

TEST(SequentialFusion, FollowsItsParametersAndTheirHooks) {
  Sequential net(Conv1d(2, 2, {.kernel_size = 3}), ReLU());
  const Tensor x = Tensor::randn({1, 2, 6});
  net.load_state_dict({{"0.weight", Tensor::zeros({2, 2, 3})}, {"0.bias", Tensor::ones({2})}});
  testing::expect_values("loaded", net(x), std::vector<double>(8, 1.0));
  net.to(kFloat64);
  EXPECT_EQ(net(x.to(kFloat64)).dtype(), kFloat64);
  int calls = 0;
  net[0].as<Conv1d>().bias.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor{};
  });
  Tape tape;
  tape.backward(net(x.to(kFloat64)).sum());
  EXPECT_EQ(calls, 1);
  testing::expect_values("bias", net[0].as<Conv1d>().bias.grad(), {4, 4});
}

TEST(SequentialFusion, RoundsHalfPrecisionOnce) {
  Sequential net(ConvTranspose1d(3, 4, {.kernel_size = 5, .stride = 2}), Sigmoid());
  net.to(kBFloat16);
  const Tensor x = Tensor::randn({2, 3, 50}).to(kBFloat16);
  const Tensor fused = net(x);
  net.to(kFloat32);
  testing::expect_same_bits("result", fused, net(x.to(kFloat32)).to(kBFloat16));
}

}  // namespace
}  // namespace adjoint::nn

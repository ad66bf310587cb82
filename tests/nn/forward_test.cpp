// PyTorch's name for a call.
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/loss.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/pool.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

struct Doubled : Module {
  Doubled() : Module("Doubled") {}
  Tensor operator()(const Tensor& x) const { return linear(x) * 2.0; }

  Child<Linear> linear = register_module("linear", Linear(3, 3));
};

// Its forward() differs from its operator().
struct Own : Module {
  Own() : Module("Own") {}
  Tensor operator()(const Tensor& x) const { return forward(x, 3.0); }
  Tensor forward(const Tensor& x, double factor) const { return x * factor; }
};

struct Net : Module {
  Net() : Module("Net") {}
  Tensor operator()(const Tensor& x) const { return own.forward(doubled.forward(x), 1.0); }

  Child<Doubled> doubled = register_module("doubled", Doubled());
  Child<Own> own = register_module("own", Own());
};

TEST(Forward, IsTheCall) {
  const Tensor x = Tensor::randn({2, 3}), picture = Tensor::randn({1, 2, 4, 4}), signal = Tensor::randn({1, 2, 4});
  const Linear linear(3, 2);
  expect_same_bits("Linear", linear.forward(x), linear(x));
  const Conv2d conv(2, 3, 3);
  expect_same_bits("Conv2d", conv.forward(picture), conv(picture));
  const ConvTranspose1d up(2, 3, {.kernel_size = 2, .stride = 2});
  expect_same_bits("ConvTranspose1d", up.forward(signal), up(signal));
  const MaxPool2d pool(2);
  expect_same_bits("MaxPool2d", pool.forward(picture), pool(picture));
  const LayerNorm norm({3});
  expect_same_bits("LayerNorm", norm.forward(x), norm(x));
  const MSELoss loss;
  expect_same_bits("MSELoss", loss.forward(x, x + 1.0), loss(x, x + 1.0));
  const Sequential net{Linear(3, 2), ReLU()};
  expect_same_bits("Sequential", net.forward(x), net(x));
  expect_same_bits("Layer", net[0].forward(x), net[0](x));
}

TEST(Forward, OfAChildIsTheCallUnlessItHasItsOwn) {
  const Tensor x = Tensor::randn({2, 3});
  const Net net;
  expect_same_bits("child", net(x), net.doubled(x));
  EXPECT_ERROR(net.doubled.forward(Tensor::ones({2, 2})), "doubled.linear: ");
}

TEST(Forward, RunsHooks) {
  Linear linear(3, 2);
  linear.register_forward_hook([](const Module&, const Tensor&, const Tensor& y) { return y * 0.0; });
  EXPECT_EQ(linear.forward(Tensor::ones({1, 3})).to_vector<float>(), (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace adjoint::nn

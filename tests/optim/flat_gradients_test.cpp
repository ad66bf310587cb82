// Gradients in one buffer a group: the same steps as without, addresses that stay, and operations that put gradients
// elsewhere.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/linear.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint::optim {
namespace {

Tensor weight(const Shape& shape, double value, DType dtype = kFloat32, Device device = kCPU) {
  return Tensor::full(shape, value, {.dtype = dtype, .device = device, .requires_grad = true});
}

Tensor loss_of(const Tensor& a, const Tensor& b) { return (square(a) * 0.5).sum() + (b * 3.0).sum(); }

std::vector<std::vector<double>> train(bool flat, Device device) {
  const Tensor a = weight({2, 3}, 0.5, kFloat32, device), b = weight({5}, -0.25, kFloat32, device);
  Adam adam({a, b}, {.lr = 1e-2});
  if (flat) adam.flatten_gradients();
  const void* address = nullptr;
  for (int step = 0; step < 4; ++step) {
    Tape tape;
    tape.backward(loss_of(a, b));
    if (flat) {
      EXPECT_TRUE(address == nullptr || address == a.grad().raw_data());
      address = a.grad().raw_data();
    }
    clip_grad_norm_({a, b}, 0.75);
    adam.step();
    adam.zero_grad();
  }
  return {a.to_vector<double>(), b.to_vector<double>()};
}

TEST(FlatGradients, GiveTheSameBits) { EXPECT_EQ(train(true, kCPU), train(false, kCPU)); }

TEST(FlatGradientsCuda, GiveTheSameBits) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  EXPECT_EQ(train(true, kCUDA), train(false, kCUDA));
}

TEST(FlatGradients, AreViewsOfTheGroupsBuffer) {
  const Tensor a = weight({2, 3}, 1.0), empty = weight({0}, 0.0), b = weight({5}, 2.0);
  const Tensor c = weight({2}, 1.0, kFloat64);
  SGD sgd({{.params = {empty, a, b}}, {.params = {c}}}, {.lr = 0.5});
  Tensor handle = a;
  handle.set_grad(Tensor::full({2, 3}, 4.0, {}));
  sgd.flatten_gradients();
  Tensor flat = sgd.flat_gradients(0);
  EXPECT_EQ(flat.numel(), 128);  // 6 and 5 elements, each from a multiple of 64 on
  EXPECT_EQ(sgd.flat_gradients(1).numel(), 32);
  EXPECT_EQ(sgd.flat_gradients(1).dtype(), kFloat64);
  EXPECT_EQ(flat.sum().item<double>(), 24.0);  // the gradient that there was went in
  flat.mul_(0.5);                              // as a mean over devices would
  EXPECT_EQ(a.grad().to_vector<double>(), std::vector<double>(6, 2.0));
  EXPECT_EQ(b.grad().to_vector<double>(), std::vector<double>(5, 0.0));
  EXPECT_FALSE(empty.grad().defined());
  sgd.step();
  EXPECT_EQ(a.to_vector<double>(), std::vector<double>(6, 0.0));
  sgd.zero_grad();
  EXPECT_EQ(flat.sum().item<double>(), 0.0);
  EXPECT_EQ(a.grad().to_vector<double>(), std::vector<double>(6, 0.0));
}

TEST(FlatGradients, TakeInWhatWasPutBesideThem) {
  Tensor a = weight({3}, 1.0), b = weight({2}, 1.0);
  SGD sgd({a, b}, {.lr = 0.5});
  sgd.flatten_gradients();
  const Tensor flat = sgd.flat_gradients();
  a.set_grad(Tensor::full({3}, 2.0, {}));
  b.set_grad({});
  EXPECT_EQ(sgd.flat_gradients().sum().item<double>(), 6.0);
  EXPECT_EQ(flat.sum().item<double>(), 6.0);
  EXPECT_EQ(b.grad().to_vector<double>(), std::vector<double>(2, 0.0));
  {
    Tape tape;
    tape.backward(square(a).sum(), {.record = true});
  }
  EXPECT_EQ(sgd.flat_gradients().sum().item<double>(), 12.0);
  EXPECT_EQ(flat.sum().item<double>(), 12.0);
}

TEST(FlatGradients, RefuseWhatDoesNotFit) {
  SGD mixed({weight({2}, 1.0), weight({2}, 1.0, kFloat64)}, {.lr = 0.5});
  EXPECT_ERROR(mixed.flatten_gradients(), "flatten_gradients (SGD)", "float32", "float64", "group 0");
  EXPECT_ERROR(mixed.flat_gradients(), "flat_gradients (SGD)", "call flatten_gradients()");
  EXPECT_ERROR(mixed.flat_gradients(1), "SGD", "counted from 0; got 1");
  SGD sgd({weight({2}, 1.0)}, {.lr = 0.5});
  sgd.flatten_gradients();
  sgd.add_param_group({.params = {weight({3}, 1.0)}});
  EXPECT_EQ(sgd.flat_gradients(0).numel(), 64);
  EXPECT_ERROR(sgd.flat_gradients(1), "group 1", "call flatten_gradients()");
  sgd.zero_grad();
  sgd.flatten_gradients();
  EXPECT_EQ(sgd.flat_gradients(1).numel(), 64);
}

// A module that is converted takes its gradients, and with them the views, out of the buffer.
TEST(FlatGradients, OfAModuleThatWasConvertedAreForgottenAndMadeAnew) {
  nn::Linear layer(2, 1);
  SGD sgd(layer.parameters(), {.lr = 0.5});
  const auto backward = [&](DType dtype) {
    Tape tape;
    tape.backward(layer(Tensor::ones({3, 2}, {.dtype = dtype})).sum());
  };
  sgd.flatten_gradients();
  backward(kFloat32);
  layer.to(kFloat64);
  EXPECT_EQ(layer.weight.grad().to_vector<double>(), (std::vector<double>{3, 3}));
  EXPECT_ERROR(sgd.flat_gradients(), "flat_gradients (SGD)", "float64", "call flatten_gradients() again");
  sgd.zero_grad();
  EXPECT_FALSE(layer.weight.grad().defined());
  backward(kFloat64);
  EXPECT_ERROR(sgd.flat_gradients(), "call flatten_gradients() again");
  sgd.flatten_gradients();
  EXPECT_EQ(sgd.flat_gradients().sum().item<double>(), 9.0);
  sgd.zero_grad();
  EXPECT_EQ(layer.weight.grad().to_vector<double>(), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace adjoint::optim

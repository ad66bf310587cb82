// Modules that were moved from, and arguments that layers and Sequential refuse.
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace adjoint::nn {
namespace {

TEST(ModuleMisuse, AModuleThatWasMovedFromIsAnError) {
  Scaled a;
  Scaled b = std::move(a);
  EXPECT_EQ(at_one(b), 1.0F);
  EXPECT_ERROR(a.parameters(), "parameters: the module must not have been moved from; got an empty one");
  EXPECT_ERROR(a.named_parameters(), "named_parameters: the module must not");
  EXPECT_ERROR(a.named_buffers(), "named_buffers: the module must not");
  EXPECT_ERROR(a.named_children(), "named_children: the module must not");
  EXPECT_ERROR(a.named_modules(), "named_modules: the module must not");
  EXPECT_ERROR(a.num_parameters(), "num_parameters: the module must not");
  EXPECT_ERROR(a.type(), "type: the module must not");
  EXPECT_ERROR(a.state_dict(), "state_dict: the module must not");
  EXPECT_ERROR(a.load_state_dict({}), "load_state_dict: the module must not");
  EXPECT_ERROR(a.to(kCPU), "Module::to: the module must not");
  EXPECT_ERROR(a.to(kFloat64), "Module::to: the module must not");
  EXPECT_ERROR(a.train(), "train: the module must not");
  EXPECT_ERROR(a.eval(), "train: the module must not");
  EXPECT_ERROR(a.training(), "training: the module must not");
  EXPECT_ERROR(a.zero_grad(), "zero_grad: the module must not");
  EXPECT_ERROR(a.requires_grad_(), "requires_grad_: the module must not");
  EXPECT_ERROR(a.register_parameter("p", Tensor::ones({1})), "register_parameter: the module must not");
  EXPECT_ERROR(a.register_buffer("p", Tensor::ones({1})), "register_buffer: the module must not");
  EXPECT_ERROR(a.register_module("p", ReLU()), "register_module: the module must not");
  EXPECT_ERROR(b.register_module("p", a), "register_module: the module must not have been moved from");
  EXPECT_ERROR(to_string(a), "to_string: the module must not");
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a.scale.defined());
  EXPECT_ERROR(a.scale = Tensor::ones({1}), "the handle must be on a slot");
  a = b;
  EXPECT_EQ(at_one(a), 1.0F);
  EXPECT_TRUE(a == b);
}

template <class L>
void expect_empty_after_move(L layer, const Tensor& x, const char* name) {
  const L moved = std::move(layer);
  EXPECT_NO_THROW(moved(x));
  const std::string message = std::string(name) + ": the module must not have been moved from";
  EXPECT_ERROR(layer(x), message.c_str());
}

TEST(ModuleMisuse, LayersThatWereMovedFromAreErrors) {
  const Tensor line = Tensor::randn({2, 4, 6}), image = Tensor::randn({2, 4, 5, 6});
  expect_empty_after_move(Conv1d(4, 2, {.kernel_size = 3}), line, "Conv1d");
  expect_empty_after_move(Conv2d(4, 2, {.kernel_size = 3}), image, "Conv2d");
  expect_empty_after_move(ConvTranspose1d(4, 2, {.kernel_size = 3}), line, "ConvTranspose1d");
  expect_empty_after_move(ConvTranspose2d(4, 2, {.kernel_size = 3}), image, "ConvTranspose2d");
  expect_empty_after_move(Linear(6, 3), line, "Linear");
  expect_empty_after_move(PReLU(), line, "PReLU");
  expect_empty_after_move(Dropout(), line, "Dropout");
  expect_empty_after_move(Layer(ReLU()), line, "Layer");
  expect_empty_after_move(Sequential(ReLU(), Linear(6, 3)), line, "Sequential");

  Sequential net{ReLU()};
  const Sequential moved = std::move(net);
  EXPECT_ERROR(net.size(), "Sequential::size: the module must not");
  EXPECT_ERROR(net[0], "Sequential::operator[]: the module must not");
  EXPECT_ERROR(net.begin(), "Sequential::begin: the module must not");
  EXPECT_ERROR(net.end(), "Sequential::end: the module must not");
  EXPECT_ERROR(net.append(ReLU()), "Sequential::append: the module must not");
  EXPECT_ERROR(net.append("a", ReLU()), "Sequential::append: the module must not");
  ReLU relu;
  const ReLU other = std::move(relu);
  EXPECT_ERROR(Layer(relu), "Layer: the module must not have been moved from");
  EXPECT_ERROR(Sequential(relu), "Layer: the module must not have been moved from");
}

TEST(ModuleMisuse, AnEmptyFunctionIsNoLayer) {
  using Function = std::function<Tensor(const Tensor&)>;
  EXPECT_ERROR(Sequential(Function()), "Layer: the function must not be empty");
  EXPECT_ERROR(Layer(static_cast<Tensor (*)(const Tensor&)>(nullptr)), "Layer: the function must not be empty");
  EXPECT_ERROR(Layer(std::function<Tensor(Tensor)>()), "Layer: the function must not be empty");
  Sequential net{ReLU()};
  EXPECT_ERROR(net.append(Function()), "Layer: the function must not be empty");
  EXPECT_ERROR(net.append("name", Function()), "Layer: the function must not be empty");
  EXPECT_EQ(net.size(), 1U);
  EXPECT_EQ(net.named_children().size(), 1U);
}

TEST(ModuleMisuse, WhatSequentialRefusesLeavesItAsItWas) {
  Sequential net(Conv1d(1, 1, {.kernel_size = 1}), ReLU());
  EXPECT_ERROR(net.append("0", ReLU()),
               "Sequential::append: a name must be free; got '0', which Sequential already has");
  EXPECT_ERROR(net.append("a.b", ReLU()), "Sequential::append: a name must not be empty or hold a dot; got 'a.b'");
  EXPECT_ERROR(net.append("", ReLU()), "Sequential::append: a name must not be empty");
  EXPECT_ERROR(net.append(net), "Sequential::append: a module must not be put inside itself; got '2' in Sequential");
  EXPECT_ERROR(Sequential({{"a", ReLU()}, {"a", ReLU()}}), "Sequential: a name must be free; got 'a'");
  EXPECT_ERROR(net[SIZE_MAX], "Sequential: an index must be below the number of layers; got 18446744073709551615 of 2");
  EXPECT_EQ(net.size(), 2U);
  EXPECT_EQ(net.named_children().size(), 2U);
  EXPECT_EQ(Sequential()(kOne).impl(), kOne.impl());
}

}  // namespace
}  // namespace adjoint::nn

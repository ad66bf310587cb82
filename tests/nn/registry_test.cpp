// The registry is the only truth: assigning parameters and child modules, through any handle.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/tests/nn/registry_modules.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace outside {

// Operators and functions are found without naming the library's namespace, as they are for a Tensor.
inline std::vector<float> arithmetic(const adjoint::nn::Conv1d& conv) {
  const adjoint::Tensor sum = conv.bias + conv.bias * 2.0 - relu(conv.bias) / conv.bias;
  return sum.to_vector<float>();
}

}  // namespace outside

namespace adjoint::nn {
namespace {

// ---- Parameters and buffers.

template <class Layer>
void expect_assignable(Layer layer, const Tensor& x) {
  const Layer copy = layer;
  const Sequential net(layer);
  const Tensor weight = Tensor::full(layer.weight.shape(), 0.5);
  const Tensor before = layer(x);
  layer.weight = weight;
  EXPECT_TRUE(same(layer.weight, weight));
  EXPECT_TRUE(same(copy.weight, weight));
  EXPECT_TRUE(same(layer.parameters()[0], weight));
  EXPECT_TRUE(same(net.parameters()[0], weight));
  EXPECT_TRUE(weight.requires_grad());
  const std::vector<float> after = values(layer(x));
  EXPECT_NE(after, values(before));
  EXPECT_EQ(values(copy(x)), after);
  EXPECT_EQ(values(net(x)), after);
  Layer loaded = layer;
  loaded.load_state_dict(layer.state_dict());
  Tape tape;
  tape.backward(layer(x).sum());
  EXPECT_TRUE(weight.grad().defined());
}

TEST(Registry, AssigningAParameterRegistersItInEveryLayer) {
  const Tensor line = Tensor::randn({2, 4, 6}), image = Tensor::randn({2, 4, 5, 6});
  expect_assignable(Conv1d(4, 2, {.kernel_size = 3}), line);
  expect_assignable(Conv2d(4, 2, {.kernel_size = 3}), image);
  expect_assignable(ConvTranspose1d(4, 2, {.kernel_size = 3}), line);
  expect_assignable(ConvTranspose2d(4, 2, {.kernel_size = 3}), image);
  expect_assignable(Linear(6, 3), line);
  expect_assignable(PReLU(), line);
}

TEST(Registry, AnOptionalParameterComesAndGoes) {
  Conv1d conv(1, 1, {.kernel_size = 1});
  conv.weight.fill_(2.0);
  conv.bias = Tensor::full({1}, 3.0);
  EXPECT_EQ(conv(kOne).item<float>(), 5.0F);
  for (int i = 0; i < 2; ++i) {
    if (i == 0) conv.bias = {};
    if (i == 1) conv.bias = Tensor();
    EXPECT_FALSE(conv.bias.defined());
    EXPECT_EQ(names(conv.state_dict()), std::vector<std::string>{"weight"});
    EXPECT_EQ(conv(kOne).item<float>(), 2.0F);
    conv.bias = Tensor::full({1}, 4.0);
    EXPECT_EQ(conv(kOne).item<float>(), 6.0F);
  }
  Linear linear(1, 1, {.bias = false});
  linear.weight.fill_(2.0);
  linear.bias = Tensor::full({1}, 1.0);
  EXPECT_EQ(names(linear.named_parameters()), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(linear(Tensor::ones({1})).item<float>(), 3.0F);
}

TEST(Registry, WhatMustNotBeRegisteredIsNotAssigned) {
  Scaled module;
  const Tensor scale = module.scale, shift = module.shift;
  EXPECT_ERROR(module.scale = Tensor(),
               "Parameter::operator=: a parameter must be defined; got Tensor{} as 'scale' in Scaled");
  EXPECT_ERROR(module.scale = {}, "Parameter::operator=: a parameter must be defined");
  EXPECT_ERROR(module.scale = Tensor::ones({1}, {.dtype = kInt64}),
               "Parameter::operator=: a parameter must be floating point; got int64 as 'scale' in Scaled");
  EXPECT_ERROR(module.shift = Tensor::ones({1}, {.requires_grad = true}),
               "Parameter::operator=: a buffer must not require a gradient; got 'shift' in Scaled");
  EXPECT_ERROR(module.shift = module.scale, "a buffer must not require a gradient");
  {
    const Tape tape;
    EXPECT_ERROR(module.scale = module.scale * 2.0,
                 "Parameter::operator=: a parameter must be a leaf; got the result of a recorded operation, of shape "
                 "(1,), as 'scale' in Scaled; detach() it");
  }
  EXPECT_TRUE(same(module.scale, scale));
  EXPECT_TRUE(same(module.shift, shift));
  Parameter loose;
  EXPECT_FALSE(loose.defined());
  EXPECT_ERROR(loose = scale, "Parameter::operator=: the handle must be on a slot; got one without a slot");
}

TEST(Registry, ParametersAreTied) {
  Linear encoder(2, 2, {.bias = false});
  const Linear other(2, 2, {.bias = false});
  Linear decoder(2, 2, {.bias = false});
  encoder.weight.requires_grad_(false);
  decoder.weight = encoder.weight;
  EXPECT_TRUE(same(decoder.parameters()[0], encoder.parameters()[0]));
  EXPECT_FALSE(encoder.weight.requires_grad());
  const Sequential both(encoder, decoder);
  EXPECT_EQ(names(both.named_parameters()), std::vector<std::string>{"0.weight"});
  decoder.weight = other.weight;
  EXPECT_TRUE(same(decoder.parameters()[0], other.weight));
  EXPECT_FALSE(same(encoder.weight, other.weight));
  // A buffer's tensor may become a parameter.
  Scaled module;
  module.scale = module.shift;
  EXPECT_TRUE(module.scale.requires_grad());
  EXPECT_TRUE(same(module.parameters()[0], module.scale));
}

TEST(Registry, AHandleStandsForItsTensor) {
  Conv1d conv(2, 3, {.kernel_size = 1});
  conv.bias.copy_(Tensor::from_vector<float>({1, -2, 4}, {3}));
  EXPECT_EQ(outside::arithmetic(conv), (std::vector<float>{2, -6, 11}));
  const Tensor copied = conv.bias;
  Parameter handle = conv.bias;
  conv.bias = Tensor::ones({3});
  EXPECT_EQ(values(copied), (std::vector<float>{1, -2, 4}));
  EXPECT_EQ(values(handle), (std::vector<float>{1, 1, 1}));
  handle = Tensor::zeros({3});
  EXPECT_EQ(values(conv.parameters()[1]), (std::vector<float>{0, 0, 0}));
  const std::vector<Tensor> both{conv.weight, conv.bias};
  EXPECT_EQ(both[0].shape(), (Shape{3, 2, 1}));
  EXPECT_EQ(conv.weight.size(-1), 1);
  EXPECT_EQ(conv.weight.numel(), 6);
  EXPECT_EQ(conv.weight.reshape({2, 3}).shape(), (Shape{2, 3}));
  EXPECT_EQ(conv.bias.data<float>()[2], 0.0F);
}

TEST(Registry, AHandleReadsAndWritesAsATensorDoes) {
  Scaled module;
  module.scale = Tensor::from_vector({-1.0F, 2.0F, 4.0F, 4.0F}, {4});
  const Parameter& scale = module.scale;
  const Tensor tensor = scale;
  EXPECT_EQ(values(scale->softmax(0)), values(tensor.softmax(0)));
  EXPECT_EQ(scale->argmax().item<int>(), 2);
  EXPECT_EQ(scale->chunk(2)[1].numel(), 2);
  EXPECT_EQ(scale[1].item<float>(), 2.0F);
  EXPECT_EQ(scale.norm().item<float>(), tensor.norm().item<float>());
  EXPECT_EQ(values(scale.norm(1.0, {0}, true)), std::vector<float>{11.0F});
  EXPECT_EQ(scale.min().item<float>(), -1.0F);
  EXPECT_EQ(scale.var().item<float>(), tensor.var().item<float>());
  EXPECT_EQ(values(scale.std({0}, 0, true)), values(tensor.std({0}, 0, true)));
  EXPECT_EQ(values(scale.index({Slice(1, 3)})), (std::vector<float>{2, 4}));
  EXPECT_EQ(scale.matmul(tensor).item<float>(), 37.0F);
  EXPECT_EQ(values(scale.abs().log()), values(tensor.abs().log()));
  EXPECT_EQ(values(scale.exp()), values(tensor.exp()));
  EXPECT_EQ(values(scale.square().sqrt()), (std::vector<float>{1, 2, 4, 4}));
  EXPECT_EQ(scale.sqrt()[2].item<float>(), 2.0F);
  EXPECT_EQ(scale.log()[1].item<float>(), tensor.log()[1].item<float>());
  EXPECT_EQ(values(scale.pow(2.0)), (std::vector<float>{1, 4, 16, 16}));
  EXPECT_EQ(values(scale.clamp(0.0, 3.0)), (std::vector<float>{0, 2, 3, 3}));
  const Tensor by = Tensor::full({4}, 2.0);
  module.scale += by;
  module.scale *= 3.0;
  EXPECT_EQ(values(tensor), (std::vector<float>{3, 12, 18, 18}));
  module.scale -= 1.0;
  module.scale /= by;
  EXPECT_EQ(values(tensor), (std::vector<float>{1, 5.5, 8.5, 8.5}));
  module.scale *= by;
  (module.scale -= by) += 1.0;
  module.scale /= 2.0;
  EXPECT_EQ(values(tensor), (std::vector<float>{0.5, 5, 8, 8}));
  module.scale.add_(1.0).sub_(0.5).mul_(by).div_(4.0).div_(by).sub_(by, 0.25);
  EXPECT_EQ(values(tensor), (std::vector<float>{-0.25, 0.875, 1.625, 1.625}));
}

// ---- Child modules.

TEST(Registry, AssigningAChildRegistersIt) {
  Scaled module(2.0);
  const Scaled copy = module;
  const Sequential net(module, ReLU());
  EXPECT_EQ(at_one(module), 2.0F);
  module.conv = pointwise(3.0);
  for (const Scaled& handle : {std::as_const(module), copy}) {
    EXPECT_EQ(at_one(handle), 3.0F);
    EXPECT_EQ(handle.conv.weight.item<float>(), 3.0F);
    EXPECT_TRUE(same(handle.parameters()[1], handle.conv.weight));
    EXPECT_TRUE(handle.named_children()[0].second == handle.conv);
  }
  EXPECT_EQ(net(kOne).item<float>(), 3.0F);
  EXPECT_TRUE(same(net.parameters()[1], module.conv.weight));
  EXPECT_EQ(names(module.named_parameters()), (std::vector<std::string>{"scale", "conv.weight"}));
  // Through a copy that Sequential hands out, and through the new child's own slots.
  net[0].as<Scaled>().conv = pointwise(4.0);
  EXPECT_EQ(at_one(module), 4.0F);
  module.conv.weight = Tensor::full({1, 1, 1}, 5.0);
  EXPECT_EQ(at_one(copy), 5.0F);
  EXPECT_EQ(net.parameters()[1].item<float>(), 5.0F);
}

TEST(Registry, AChildThatIsAssignedMayBeMadeOtherwise) {
  Scaled module;
  const Scaled copy = module;
  module.conv = Conv1d(1, 4, {.kernel_size = 3, .padding = 2});
  EXPECT_EQ(copy.conv.options().padding, 2);
  EXPECT_EQ(copy(Tensor::ones({1, 1, 5})).shape(), (Shape{1, 4, 7}));
  EXPECT_EQ(names(copy.named_parameters()), (std::vector<std::string>{"scale", "conv.weight", "conv.bias"}));
}

TEST(Registry, ACopyOfAChildUnderItsOwnTypeIsOnTheModuleAlone) {
  Scaled module(2.0);
  Conv1d old = module.conv;
  Child<Conv1d> handle = module.conv;
  module.conv = pointwise(3.0);
  EXPECT_EQ(old.weight.item<float>(), 2.0F);
  EXPECT_EQ(handle.weight.item<float>(), 3.0F);
  old = pointwise(7.0);
  EXPECT_EQ(at_one(module), 3.0F);
  handle = pointwise(8.0);
  EXPECT_EQ(at_one(module), 8.0F);
  module.conv = module.conv;
  module.conv = static_cast<const Conv1d&>(module.conv);
  EXPECT_EQ(at_one(module), 8.0F);
}

TEST(Registry, ChildrenAreShared) {
  Scaled a(2.0), b(3.0);
  a.conv = b.conv;
  EXPECT_TRUE(a.conv == b.conv);
  b.conv.weight = Tensor::full({1, 1, 1}, 4.0);
  EXPECT_EQ(at_one(a), 4.0F);
  b.conv = pointwise(5.0);
  EXPECT_EQ(at_one(a), 4.0F);
  EXPECT_EQ(at_one(b), 5.0F);
}

class Nested : public Module {
 public:
  explicit Nested(double weight) : Module("Nested"), inner(register_module("inner", Scaled(weight))) {}
  Tensor operator()(const Tensor& x) const { return inner(x); }
  Child<Scaled> inner;
};

TEST(Registry, WhatIsInsideAnAssignedChildFollows) {
  Nested module(2.0);
  const Nested copy = module;
  module.inner = Scaled(3.0);
  EXPECT_EQ(copy.inner.conv.weight.item<float>(), 3.0F);
  module.inner.conv = pointwise(4.0);
  EXPECT_EQ(copy(kOne).item<float>(), 4.0F);
  copy.parameters()[1].fill_(5.0);
  EXPECT_EQ(module.inner.conv.weight.item<float>(), 5.0F);
  EXPECT_EQ(names(copy.named_parameters()), (std::vector<std::string>{"inner.scale", "inner.conv.weight"}));
}

class Holder : public Module {
 public:
  Holder() : Module("Holder"), child(register_module("child", Sequential())) {}
  Child<Sequential> child;
};

TEST(Registry, AModuleIsNotAssignedInsideItself) {
  Holder holder;
  holder.child = Sequential(ReLU());
  EXPECT_EQ(holder.child.size(), 1U);
  const Holder copy = holder;
  Module wrapper("Wrapper");
  wrapper.register_module("holder", holder);
  Sequential inside;
  inside.register_module("wrapper", wrapper);
  EXPECT_ERROR(holder.child = inside,
               "Child::operator=: a module must not be put inside itself; got 'child' in Holder");
  EXPECT_EQ(copy.child.size(), 1U);
  const Sequential gone = std::move(inside);
  EXPECT_ERROR(holder.child = inside, "Child::operator=: the module must not have been moved from");
  Child<Sequential> loose;
  EXPECT_ERROR(loose = Sequential(ReLU()),
               "Child::operator=: the handle must be on a slot; got one of a Sequential without one");
}

TEST(Registry, AModuleThatIsReplacedMayHoldItsParent) {
  Holder holder;
  {
    // A copy of the parent, and with it a handle on the slot, goes with the module that is replaced.
    const Holder parent = holder;
    holder.child = Sequential([parent](const Tensor& x) { return x * static_cast<double>(parent.child.size()); });
  }
  EXPECT_EQ(holder.child(kOne).item<float>(), 1.0F);
  holder.child = Sequential(Identity(), Identity());
  EXPECT_EQ(holder.child.size(), 2U);
}

class Late : public Module {
 public:
  Late() : Module("Late") {
    body = register_module("body", Sequential(Scaled(2.0)));
    gain = register_parameter("gain", Tensor::full({1}, 3.0));
  }
  Tensor operator()(const Tensor& x) const { return body(x) * gain; }
  Child<Sequential> body;
  Parameter gain;
};

TEST(Registry, MembersMayBecomeHandlesInTheConstructor) {
  Late module;
  EXPECT_EQ(module(kOne).item<float>(), 6.0F);
  module.body = Sequential(Scaled(5.0));
  EXPECT_EQ(module(kOne).item<float>(), 15.0F);
  EXPECT_EQ(names(module.named_parameters()), (std::vector<std::string>{"gain", "body.0.scale", "body.0.conv.weight"}));
}

}  // namespace
}  // namespace adjoint::nn

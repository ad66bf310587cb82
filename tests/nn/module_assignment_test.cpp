// Whole modules that are assigned, swapped, moved and kept in containers: handles on their members follow.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/nn/registry_modules.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

TEST(ModuleAssignment, AssigningAModuleMakesItsMembersHandlesOnTheOther) {
  Scaled a(2.0), b(3.0), c(4.0);
  const Scaled old = a;
  a = b;
  EXPECT_EQ(at_one(a), 3.0F);
  EXPECT_EQ(at_one(old), 2.0F);
  EXPECT_EQ(old.parameters()[1].item<float>(), 2.0F);
  a.scale = Tensor::full({1}, 10.0);
  a.conv = pointwise(5.0);
  EXPECT_EQ(at_one(b), 50.0F);
  EXPECT_EQ(at_one(old), 2.0F);
  a = std::move(c);
  EXPECT_EQ(at_one(a), 4.0F);
  EXPECT_EQ(at_one(b), 50.0F);
  a.scale = Tensor::full({1}, 7.0);
  EXPECT_EQ(at_one(a), 28.0F);
  EXPECT_EQ(a.parameters()[0].item<float>(), 7.0F);
  c = b;
  EXPECT_EQ(at_one(c), 50.0F);
  c.conv = pointwise(1.0);
  EXPECT_EQ(at_one(b), 10.0F);
}

TEST(ModuleAssignment, AMemberAssignedAfterItsModuleRegistersAgain) {
  Linear a(1, 1, {.bias = false}), b(1, 1, {.bias = false});
  Linear kept = a;
  a = b;
  kept.weight = b.weight;  // right behind, of the same two modules
  EXPECT_TRUE(same(kept.parameters()[0], b.weight));
  kept.weight = Tensor::ones({1, 1});
  EXPECT_FALSE(same(b.weight, kept.weight));
  EXPECT_TRUE(same(kept.parameters()[0], kept.weight));
  EXPECT_TRUE(same(a.parameters()[0], b.weight));
}

TEST(ModuleAssignment, ModulesAreSwappedAndMoveThroughContainers) {
  Scaled a(2.0), b(3.0);
  const Scaled other_a = a, other_b = b;
  std::swap(a, b);
  EXPECT_EQ(at_one(a), 3.0F);
  EXPECT_EQ(at_one(b), 2.0F);
  EXPECT_EQ(at_one(other_a), 2.0F);
  a.scale = Tensor::full({1}, 2.0);
  EXPECT_EQ(at_one(other_b), 6.0F);

  std::vector<Scaled> all;
  for (int i = 0; i < 6; ++i) all.emplace_back(static_cast<double>(i));
  const std::vector<Scaled> others = all;
  all.erase(all.begin() + 1, all.begin() + 3);
  all.insert(all.begin(), Scaled(9.0));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float expected[] = {9, 0, 3, 4, 5};
    EXPECT_EQ(at_one(all[i]), expected[i]);
    EXPECT_TRUE(same(all[i].parameters()[0], all[i].scale));
    EXPECT_TRUE(all[i].named_children()[0].second == all[i].conv);
  }
  for (std::size_t i = 0; i < others.size(); ++i) EXPECT_EQ(at_one(others[i]), static_cast<float>(i));
}

class Many : public Module {
 public:
  explicit Many(double weight) : Module("Many") {
    for (const char* name : {"a", "b"}) {
      convs.push_back(register_module(name, pointwise(weight)));
      gains.push_back(register_parameter(std::string("gain_") + name, Tensor::ones({1})));
    }
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (std::size_t i = 0; i < convs.size(); ++i) y = convs[i](y) * gains[i];
    return y;
  }
  std::vector<Child<Conv1d>> convs;
  std::vector<Parameter> gains;
};

TEST(ModuleAssignment, HandlesInContainersFollowTheirModule) {
  Many a(2.0), b(3.0);
  Many old = a;
  a = b;
  EXPECT_EQ(a(kOne).item<float>(), 9.0F);
  EXPECT_EQ(old(kOne).item<float>(), 4.0F);
  EXPECT_EQ(old.parameters().size(), 4U);
  a.convs[1] = pointwise(5.0);
  a.gains[0] = Tensor::full({1}, 2.0);
  EXPECT_EQ(b(kOne).item<float>(), 30.0F);
  EXPECT_EQ(old(kOne).item<float>(), 4.0F);
  old.gains[1] = b.gains[0];
  old.convs[0] = b.convs[1];
  EXPECT_EQ(old(kOne).item<float>(), 20.0F);
  EXPECT_TRUE(same(old.parameters()[1], b.gains[0]));
}

// Written before there were handles on slots.
class Old : public Module {
 public:
  explicit Old(std::int64_t channels)
      : Module("Old"),
        conv(register_module("conv", Conv2d(channels, channels, {.kernel_size = 3, .padding = 1}))),
        scale(register_parameter("scale", Tensor::ones({1}))) {
    count = register_buffer("count", Tensor::zeros({1}));
    body = register_module("body", Sequential(ReLU()));
    first = register_module<Linear>("first", Linear(2, 2));
    if (channels > 1) layers.push_back(register_module("layer", Linear(2, 2)));
  }
  Tensor operator()(const Tensor& x) const { return body(x + scale * relu(conv(x))); }

  Conv2d conv;
  Tensor scale, count;
  Sequential body;
  Linear first{1, 1};
  std::vector<Linear> layers;
};

TEST(ModuleAssignment, MembersOfTheTensorsOwnTypeRead) {
  Old module(2);
  EXPECT_TRUE(same(module.parameters()[0], module.scale));
  EXPECT_TRUE(same(module.conv.weight, module.named_children()[0].second.parameters()[0]));
  module.conv.weight = Tensor::zeros({2, 2, 3, 3});
  module.conv.bias = Tensor::zeros({2});
  const Tensor x = Tensor::rand({1, 2, 3, 3});
  EXPECT_EQ(values(module(x)), values(x));
  EXPECT_EQ(names(module.named_buffers()), std::vector<std::string>{"count"});
  EXPECT_EQ(module.named_children().size(), 4U);
  EXPECT_TRUE(same(module.first.weight, module.named_children()[2].second.parameters()[0]));
}

class Sealed final : public Module {
 public:
  Sealed() : Module("Sealed"), gain(register_parameter("gain", Tensor::ones({1}))) {}
  Tensor operator()(const Tensor& x) const { return x * gain; }
  Parameter gain;
};

TEST(ModuleAssignment, AFinalTypeIsRegisteredUnderItself) {
  Module parent;
  Sealed child = parent.register_module("child", Sealed());
  child.gain = Tensor::full({1}, 2.0);
  EXPECT_EQ(parent.parameters()[0].item<float>(), 2.0F);
}

// ---- Modules that were moved from, Sequential.

TEST(ModuleAssignment, SequentialTakesAChildAsTheModuleThatItIs) {
  Scaled module(-2.0);
  Sequential net(module.conv, ReLU());
  EXPECT_EQ(net[0].as<Conv1d>().weight.item<float>(), -2.0F);
  EXPECT_EQ(net(kOne).item<float>(), 0.0F);
  {
    const Tape tape;
    net(kOne);
    EXPECT_EQ(tape.size(), 2U);  // a leaf, one operation: a convolution with its activation
  }
  net[0].as<Conv1d>().weight = Tensor::full({1, 1, 1}, 3.0);
  EXPECT_EQ(net(kOne).item<float>(), 3.0F);
  EXPECT_EQ(at_one(module), 3.0F);
  module.conv = pointwise(9.0);
  EXPECT_EQ(net(kOne).item<float>(), 3.0F);
  Module parent;
  EXPECT_TRUE(parent.register_module("conv", module.conv) == module.conv);
}

TEST(ModuleAssignment, SequentialMayGrowWhileItRuns) {
  Sequential net;
  int left = 50;
  net.append([&](const Tensor& x) {
    if (left-- > 0) net.append([](const Tensor& y) { return y + 1.0; });
    return x;
  });
  EXPECT_EQ(net(kOne).item<float>(), 1.0F);
  EXPECT_EQ(net(kOne).item<float>(), 2.0F);
  left = 0;
  EXPECT_EQ(net(kOne).item<float>(), 3.0F);
}

}  // namespace
}  // namespace adjoint::nn

// Parameters that get gradients and are in no optimiser: named once, and only if that is a mistake.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/clone.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/reparametrize.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/warnings.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::optim {
namespace {

using testing::Warnings;

struct Net : nn::Module {
  Net() : Module("Net") {}
  Tensor operator()(const Tensor& x) const { return second(first(x)); }
  nn::Child<nn::Linear> first = register_module("first", nn::Linear(3, 3));
  nn::Child<nn::Linear> second = register_module("second", nn::Linear(3, 1));
};

// `count` steps as programs write them; `between` follows each update.
void train(const std::function<Tensor(const Tensor&)>& net, const std::vector<Optimizer*>& optimizers, int count = 4,
           const std::function<void()>& between = {}) {
  for (int step = 0; step < count; ++step) {
    Tape tape;
    tape.backward(square(net(Tensor::rand({2, 3}))).sum());
    for (Optimizer* const optimizer : optimizers) optimizer->step();
    if (between) between();
    for (Optimizer* const optimizer : optimizers) optimizer->zero_grad();
  }
}

TEST(Untrained, AParameterThatWasLeftOutIsNamedOnce) {
  const Warnings warnings;
  const Net net;
  SGD sgd(net.first.parameters(), 1e-3);
  train(net, {&sgd}, 2);
  EXPECT_TRUE(warnings.messages.empty()) << "a program may be about to make another optimiser";
  train(net, {&sgd}, 6);
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_EQ(warnings.messages[0],
            "backward: a parameter that gets a gradient should be in an optimiser; got 'Net.second.bias' (1,), "
            "'Net.second.weight' (1, 3) in no optimiser; register its module (register_module) and make the optimiser "
            "after that, or switch the gradient off by requires_grad_(false)");
}

TEST(Untrained, AModuleThatWasNeverRegisteredIsNamedByItsType) {
  struct Forgetful : nn::Module {
    Forgetful() : Module("Forgetful") {}
    Tensor operator()(const Tensor& x) const { return second(first(x)); }
    nn::Linear first{3, 3};  // no register_module
    nn::Child<nn::Linear> second = register_module("second", nn::Linear(3, 1));
  };
  const Warnings warnings;
  const Forgetful net;
  Adam adam(net.parameters(), 1e-3);
  train(net, {&adam});
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_NE(warnings.messages[0].find("'Linear.weight' (3, 3)"), std::string::npos) << warnings.messages[0];
}

TEST(Untrained, WhatWasAssignedOrMadeAnewAfterTheOptimiserIsNamed) {
  const Warnings warnings;
  Net net;
  SGD sgd(net.parameters(), 1e-3);
  net.first = nn::Linear(3, 3);
  train(net, {&sgd});
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_NE(warnings.messages[0].find("'Net.first.weight' (3, 3)"), std::string::npos) << warnings.messages[0];

  Net other;
  SGD before(other.parameters(), 1e-3);
  nn::weight_norm(static_cast<nn::Linear>(other.second));
  train(other, {&before});
  ASSERT_EQ(warnings.messages.size(), 2U);
  EXPECT_NE(warnings.messages[1].find("'Net.second.weight_g'"), std::string::npos) << warnings.messages[1];
}

TEST(Untrained, MoreThanAFewAreCounted) {
  const Warnings warnings;
  const nn::Linear last(3, 1);
  nn::Sequential body;
  for (int i = 0; i < 4; ++i) body.append(nn::Linear(3, 3));
  SGD sgd(last.parameters(), 1e-3);
  train([&](const Tensor& x) { return last(body(x)); }, {&sgd});
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_NE(warnings.messages[0].find(" and 4 more in no optimiser"), std::string::npos) << warnings.messages[0];
}

TEST(Untrained, TwoOptimisersAndAFrozenGroupAreNoMistake) {
  const Warnings warnings;
  const Net net;
  SGD first(net.first.parameters(), 1e-3);
  Adam second(net.second.parameters(), 1e-3);
  train(net, {&first});  // as a GAN's generator steps: the other's parameters get gradients too
  train(net, {&second});
  const Net frozen;
  SGD groups({{.params = frozen.first.parameters()}, {.params = frozen.second.parameters(), .frozen = true}}, 1e-3);
  train(frozen, {&groups});
  Net plain;
  plain.second.requires_grad_(false);
  SGD rest(plain.first.parameters(), 1e-3);
  train(plain, {&rest});
  EXPECT_TRUE(warnings.messages.empty()) << warnings.messages[0];
}

TEST(Untrained, AnOptimiserThatMovedStillTrains) {
  const Warnings warnings;
  const Net net;
  auto made = std::make_unique<SGD>(net.parameters(), 1e-3);
  SGD moved = std::move(*made);
  made.reset();
  SGD assigned(nn::Linear(1, 1).parameters(), 1e-3);
  assigned = std::move(moved);
  train(net, {&assigned});
  SGD second(net.second.parameters(), 1e-3);
  { const SGD third(net.second.parameters(), 1e-3); }
  train(net, {&assigned});
  EXPECT_TRUE(warnings.messages.empty()) << warnings.messages[0];
}

TEST(Untrained, AnOptimiserThatIsGoneTrainsNoMore) {
  const Warnings warnings;
  const Net net;
  SGD first(net.first.parameters(), 1e-3);
  std::optional<SGD> second(std::in_place, net.second.parameters(), 1e-3);
  train(net, {&first});
  EXPECT_TRUE(warnings.messages.empty());
  second.reset();
  train(net, {&first});
  EXPECT_EQ(warnings.messages.size(), 1U);
}

TEST(Untrained, WhatAProgramUpdatesByHandIsTrained) {
  const Warnings warnings;
  const Net net;
  SGD sgd(net.first.parameters(), 1e-3);
  train(net, {&sgd}, 6, [&] {
    const PauseTape pause;
    for (Tensor parameter : net.second.parameters()) {
      parameter.sub_(parameter.grad(), 1e-3);
      parameter.set_grad({});
    }
  });
  EXPECT_TRUE(warnings.messages.empty()) << warnings.messages[0];
}

TEST(Untrained, GradientsOnPurposeAreNoMistake) {
  const Warnings warnings;
  const Net net, critic;
  SGD sgd(net.parameters(), 1e-3);
  for (int step = 0; step < 5; ++step) {
    // Gradients of an input, as an attack on a network computes them, and of a module that needs no optimiser.
    Tensor input = Tensor::rand({2, 3}, {.requires_grad = true});
    {
      Tape tape;
      tape.backward(net(input).sum());
    }
    {
      Tape tape;
      tape.backward(critic(input).sum());
    }
    {
      Tape tape;
      const Tensor loss = critic(net(input).expand({2, 3})).sum();
      EXPECT_EQ(tape.gradient(loss, net.parameters()).size(), 4U);
    }
    sgd.step();
    sgd.zero_grad();
  }
  // A tensor of the program, which is in no module.
  const Tensor scale = Tensor::ones({1}, {.requires_grad = true});
  train([&](const Tensor& x) { return net(x) * scale; }, {&sgd});
  EXPECT_TRUE(warnings.messages.empty()) << warnings.messages[0];
}

TEST(Untrained, AnUpdateOverSeveralSweepsIsOne) {
  const Warnings warnings;
  const Net net;
  SGD sgd(net.first.parameters(), 1e-3);
  for (int sweep = 0; sweep < 8; ++sweep) {
    Tape tape;
    tape.backward(net(Tensor::rand({2, 3})).sum());
  }
  EXPECT_TRUE(warnings.messages.empty()) << "no optimiser has stepped yet";
}

TEST(Untrained, ACloneHasParametersOfItsOwn) {
  const Warnings warnings;
  const Net net;
  const Net copy = nn::clone(net);
  SGD sgd(net.parameters(), 1e-3);
  train([&](const Tensor& x) { return net(x) + copy(x); }, {&sgd});
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_NE(warnings.messages[0].find("'Net.first."), std::string::npos) << warnings.messages[0];
}

}  // namespace
}  // namespace adjoint::optim

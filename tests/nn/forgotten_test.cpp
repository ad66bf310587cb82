// A program's own module registers each of its parts in one line. Errors name the parts that it forgets: a Child that
// was never registered, and hooks that its operator() skips. They also name the place where a gradient became NaN.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/clone.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/loss.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>
#include <adjoint/tests/support/warnings.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

// As documents show it.
struct Residual : nn::Module {
  explicit Residual(std::int64_t width) : Module("Residual"), channels(width) {}
  Tensor operator()(const Tensor& x) const { return x + scale * relu(conv(x)); }

  std::int64_t channels;
  nn::Child<nn::Conv2d> conv = register_module("conv", nn::Conv2d(channels, channels, 3, {.padding = 1}));
  nn::Parameter scale = register_parameter("scale", ones({1}));
};

TEST(OneLine, RegistersAChildAndAParameter) {
  const Residual block(4);
  EXPECT_EQ(block.num_parameters(), 4 * 4 * 9 + 4 + 1);
  EXPECT_EQ(block.state_dict()["conv.weight"].shape(), (Shape{4, 4, 3, 3}));
  EXPECT_EQ(block(Tensor::rand({1, 4, 5, 5})).shape(), (Shape{1, 4, 5, 5}));
}

}  // namespace
}  // namespace adjoint

namespace adjoint::nn {
namespace {

using testing::expect_values;
using testing::Warnings;

// A program's modules, whose operator() does not run hooks.
struct Twice : Module {
  Twice() : Module("Twice") {}
  Tensor operator()(const Tensor& x) const { return x * 2.0; }
};
struct Sum : Module {
  Sum() : Module("Sum") {}
  Tensor operator()(const Tensor& a, const Tensor& b) const { return a + b; }
};

TEST(Forgotten, AChildOnNoSlotThrowsWhereItIsCalled) {
  struct Net : Module {
    Net() : Module("Net") {}
    Child<Sequential> body;  // never registered
    Child<Sum> sum;
    Child<std::optional<Linear>> none, there;
  };
  Net net;
  const Tensor x = Tensor::ones({1, 2});
  EXPECT_ERROR(net.body(x), "Child: a module that is called must be registered; got a Sequential on no slot",
               "register_module");
  EXPECT_ERROR(net.sum(x, x), "got a Sum on no slot");
  expect_values("empty", net.none(x), {1, 1});
  EXPECT_ERROR(Child<Twice>()(x), "got a Twice on no slot");
  struct Whole : Module {
    Whole() : Module("Whole") {}
    Child<Sequential> body = register_module("body", Sequential());
    Child<Sum> sum = register_module("sum", Sum());
  };
  const Whole whole, copy = whole, cloned = clone(whole);
  for (const Whole* each : {&whole, &copy, &cloned}) {
    expect_values("registered", each->body(x), {1, 1});
    expect_values("of two", each->sum(x, x), {2, 2});
  }
  Net later;
  later.body = whole.body;  // the handle on a slot that it was without
  expect_values("assigned", later.body(x), {1, 1});
}

TEST(Forgotten, AChildRunsTheHooksOfAModuleThatKnowsNone) {
  struct Net : Module {
    Net() : Module("Net") {}
    Child<Twice> twice = register_module("twice", Twice());
    Child<Linear> linear = register_module("linear", Linear(1, 1));
  };
  const Warnings warnings;
  Net net;
  std::vector<std::string> seen;
  const auto watch = [&](auto& module) {
    module.register_forward_pre_hook([&](const Module& called, const Tensor& x) {
      seen.push_back("before " + called.type());
      return x + 1.0;
    });
    module.register_forward_hook([&](const Module& called, const Tensor&, const Tensor&) {
      seen.push_back(called.type());
      return Tensor();
    });
  };
  watch(net.twice);
  watch(net.linear);
  const Tensor x = Tensor::ones({1, 1});
  expect_values("twice", net.twice(x), {4});
  net.linear(x);
  EXPECT_EQ(seen, (std::vector<std::string>{"before Twice", "Twice", "before Linear", "Linear"})) << "each once";
  EXPECT_TRUE(warnings.messages.empty());
}

TEST(Forgotten, HooksThatACallOfAChildSkipsAreTold) {
  struct Net : Module {
    Net() : Module("Net") {}
    Child<Sum> sum = register_module("sum", Sum());
  };
  const Warnings warnings;
  Net net;
  const Tensor x = Tensor::ones({1});
  net.sum(x, x);
  net.sum.register_forward_hook([](const Module&, const Tensor&, const Tensor&) { return Tensor(); });
  EXPECT_ERROR(net.sum(x, Tensor()), "add");
  EXPECT_TRUE(warnings.messages.empty()) << "a call that throws tells what it throws";
  for (int call = 0; call < 3; ++call) net.sum(x, x);
  ASSERT_EQ(warnings.messages.size(), 1U) << "once";
  EXPECT_EQ(warnings.messages[0],
            "register_forward_hook: a module's call must run its hooks; got a call of Net.sum (a Sum) that did not; "
            "return hooked(input, [&](const Tensor& x) { ... }) from its operator()");
}

TEST(Forgotten, HooksThatAnOutermostModuleSkipsAreTold) {
  struct Net : Module {
    Net() : Module("Net") {}
    Tensor operator()(const Tensor& x) const { return last(body(x)); }
    Child<Sequential> body = register_module("body", Sequential{Linear(1, 1), ReLU()});
    Linear last = register_module("last", Linear(1, 1));
  };
  const Warnings warnings;
  Net net;
  net.register_forward_pre_hook([](const Module&, const Tensor&) { return Tensor(); });
  const Tensor x = Tensor::ones({1, 1});
  net(x);
  net(x);
  net(x);
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_NE(warnings.messages[0].find("got a call of Net (a Net) that did not"), std::string::npos)
      << warnings.messages[0];
}

TEST(Forgotten, HooksThatRunAreNoMistake) {
  struct Net : Module {
    Net() : Module("Net") {}
    Tensor operator()(const Tensor& input) const {
      return hooked(input, [&](const Tensor& x) { return body(body(x)); });
    }
    Child<Sequential> body = register_module("body", Sequential{Linear(1, 1), ReLU(), Twice()});
  };
  const Warnings warnings;
  Net net;
  int runs = 0;
  const auto count = [&](const Module&, const Tensor&, const Tensor&) {
    ++runs;
    return Tensor();
  };
  const Tensor x = Tensor::ones({1, 1});
  const auto id = net.register_forward_hook(count);
  net.body(x);  // a part alone, which is no call of the whole
  net(x);
  net.body(x);
  net.body(x);
  EXPECT_EQ(runs, 1);
  net.remove_hook(id);
  net.register_forward_hook(count);
  net.body(x);
  net.body(x);
  Net cloned = clone(net);
  cloned(x);
  CrossEntropyLoss loss;
  loss.register_forward_hook(count);
  loss(Tensor::rand({2, 3}), Tensor::zeros({2}, {.dtype = kInt64}));
  Net removed;
  removed.remove_hook(removed.register_forward_hook(count));
  removed.body(x);
  removed.body(x);
  EXPECT_TRUE(warnings.messages.empty()) << warnings.messages[0];
}

class AnomalyInModules : public ::testing::Test {
 protected:
  AnomalyInModules() { set_anomaly_mode(true); }
  ~AnomalyInModules() override { set_anomaly_mode(false); }
};

// The root of 0, whose gradient times the square's, which is 0, is NaN.
struct Root : Module {
  Root() : Module("Root") {}
  Tensor operator()(const Tensor& x) const { return sqrt(x * 0.0); }
};

TEST_F(AnomalyInModules, TheGradientsErrorNamesPathAndType) {
  struct Net : Module {
    Net() : Module("Net") {}
    Tensor operator()(const Tensor& x) const { return blocks[1](first(x)); }
    Child<Linear> first = register_module("first", Linear(2, 2));
    Child<ModuleList<Root>> blocks = register_module("blocks", ModuleList<Root>{Root(), Root()});
  };
  const Net net;
  Tape tape;
  const Tensor loss = square(net(Tensor::ones({1, 2}))).sum();
  EXPECT_ERROR(tape.backward(loss),
               "anomaly: a gradient became NaN in the gradient of sqrt((1, 2) float32) in "
               "'blocks.1' (Root), call #");
}

TEST_F(AnomalyInModules, AModuleThatStandsNowhereIsItsType) {
  const Sequential net{Root()};
  Tape tape;
  const Tensor x = Tensor::ones({2}, {.requires_grad = true});
  const Tensor inside = square(net(x)).sum();
  EXPECT_ERROR(tape.backward(inside), "of sqrt((2,) float32) in '0' (Root), call #");
  const Tensor outside = square(sqrt(x * 0.0)).sum();
  EXPECT_ERROR(tape.backward(outside), "of sqrt((2,) float32), call #");
  const Layer alone = Root();
  const Tensor by_itself = square(alone(x)).sum();
  EXPECT_ERROR(tape.backward(by_itself), "of sqrt((2,) float32) in Root, call #");
}

}  // namespace
}  // namespace adjoint::nn

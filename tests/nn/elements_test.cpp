// Elements of a Sequential and a ModuleList are handles: a program changes their mode, freezes them and assigns to
// them. A state_dict() is read by name.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

TEST(Elements, OfASequentialAreNotConst) {
  Sequential net{Conv2d(2, 3, 3), ReLU(), Conv2d(3, 1, 1)};
  auto& first = net[0];
  first.eval();
  first.requires_grad_(false);
  EXPECT_FALSE(net[0].training());
  EXPECT_TRUE(net[2].training());
  EXPECT_FALSE(net.parameters()[0].requires_grad());
  for (auto& layer : net) layer.requires_grad_(true);
  EXPECT_TRUE(net.parameters()[0].requires_grad());
  const Sequential& same = net;
  static_assert(std::is_const_v<std::remove_reference_t<decltype(same[0])>>);
  EXPECT_EQ(same[0].as<Conv2d>().weight.shape(), (Shape{3, 2, 3, 3}));
  EXPECT_ERROR(net[3], "Sequential: an index must be below the number of layers; got 3 of 3");
}

TEST(Elements, AssigningToOneRegistersTheNewLayer) {
  manual_seed(1);
  Sequential net{Conv2d(2, 3, 3), ReLU(), Conv2d(3, 1, 1)};
  const Sequential copy = net;
  const Tensor x = randn({1, 2, 5, 5}), before = net(x);
  Conv2d wide(2, 3, 3, {.bias = false});
  net[0] = wide;
  EXPECT_EQ(net.named_parameters().size(), 3U);
  EXPECT_EQ(net.named_parameters()[0].first, "0.weight");
  expect_same_bits("parameter", net.state_dict()["0.weight"], wide.weight);
  const Tensor expected = net[2].as<Conv2d>()(relu(wide(x)));
  expect_same_bits("computes with it", net(x), expected);
  expect_same_bits("so does a copy that was made before", copy(x), expected);
  int convolutions = 0;
  net.visit<Conv2d>([&](auto&) { ++convolutions; });
  EXPECT_EQ(convolutions, 2);
  net[1] = Tanh();  // the activation that was fused with the convolution before it no longer is
  expect_same_bits("activation", net(x), net[2].as<Conv2d>()(tanh(wide(x))));
  auto handle = net[2];
  handle = Identity();
  expect_same_bits("through a handle", net(x), tanh(wide(x)));
  for (auto& layer : net) layer = Identity();
  expect_same_bits("in a loop", net(x), x);
  EXPECT_TRUE(net.parameters().empty());

  Sequential twin = clone(net);
  twin[0] = ReLU();
  expect_same_bits("a clone has its own", net(x), x);
  expect_same_bits("the clone", twin(x), relu(x));
}

TEST(Elements, CallsOnSeveralThreadsSeeWhatWasAssigned) {
  manual_seed(2);
  Sequential net{Linear(4, 4), ReLU(), Linear(4, 4)};
  const Tensor x = randn({3, 4});
  net[2] = Identity();
  const Tensor expected = relu(net[0].as<Linear>()(x));
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (Tensor& result : results) threads.emplace_back([&] { result = net(x); });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) expect_same_bits("thread", result, expected);
}

TEST(Elements, OfAModuleListAreNotConst) {
  manual_seed(3);
  ModuleList<Linear> list;
  list.push_back(Linear(2, 2));
  list.append(Linear(2, 2));
  for (auto& layer : list) layer.eval();
  EXPECT_FALSE(list[1].training());
  const Linear other(2, 2, false);
  list[0] = other;
  EXPECT_EQ(list.named_parameters().size(), 3U);
  expect_same_bits("parameter", list.state_dict()["0.weight"], other.weight);
  ModuleList<Layer> mixed{Linear(2, 2), ReLU()};
  mixed[1] = Linear(2, 3);
  int linears = 0;
  mixed.visit<Linear>([&](auto&) { ++linears; });
  EXPECT_EQ(linears, 2);
  EXPECT_EQ(mixed[1](ones(1, 2)).shape(), (Shape{1, 3}));
}

TEST(Elements, PushBackIsAppend) {
  Sequential net;
  net.push_back(Linear(2, 3));
  net.push_back("act", ReLU());
  net.push_back(Linear(3, 1));
  EXPECT_EQ(net.size(), 3U);
  EXPECT_EQ(net.named_children()[1].first, "act");
  EXPECT_EQ(net.named_children()[2].first, "2");
  EXPECT_ERROR(net.push_back("act", ReLU()), "a name must be free; got 'act'");
}

TEST(StateDict, IsReadByName) {
  Sequential net{Linear(2, 3), ReLU()};
  NamedTensors state = net.state_dict();
  EXPECT_EQ(state["0.weight"].shape(), (Shape{3, 2}));
  EXPECT_EQ(state[0].first, "0.weight");
  EXPECT_EQ(std::as_const(state)[std::string("0.bias")].shape(), Shape{3});
  EXPECT_TRUE(state.contains("0.bias"));
  EXPECT_FALSE(state.contains("bias"));
  state["0.bias"] = full({3}, 2.0);
  net.load_state_dict(state);
  testing::expect_values("loaded", net[0].as<Linear>().bias, {2, 2, 2});
  EXPECT_ERROR(state["bias"], "NamedTensors: a name must be one of the list's; got 'bias' among 0.weight, 0.bias");
  EXPECT_ERROR(NamedTensors()["a"], "got 'a' among none");
}

}  // namespace
}  // namespace adjoint::nn

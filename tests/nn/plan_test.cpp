// Plan: the parts of a network that it keeps, networks that it refuses, and its memory. tests/faults/plan_test.cpp
// watches the system; tests/ops/planned_operators_test.cpp runs every operator.
#include <adjoint/adjoint.h>
#include <adjoint/nn/plan.h>
#include <adjoint/tests/nn/networks/dcgan.h>
#include <adjoint/tests/nn/networks/espcn.h>
#include <adjoint/tests/nn/networks/fsrcnn.h>
#include <adjoint/tests/nn/networks/hifigan.h>
#include <adjoint/tests/nn/networks/unet.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using Tensors = std::vector<Tensor>;

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return a.shape() == b.shape() && a.dtype() == b.dtype() && std::memcmp(x.raw_data(), y.raw_data(), x.nbytes()) == 0;
}

template <class Net>
void expect_same(Net net, const Shape& shape) {
  net.eval();
  const Tensor first = Tensor::randn(shape), second = Tensor::randn(shape);
  Plan plan(net, {first});
  for (const Tensor& x : {second, first, second}) {
    EXPECT_TRUE(same_bits(plan.run({x})[0], net(x))) << net.type();
  }
}

TEST(Plan, HasTheBitsOfTheNetwork) {
  manual_seed(3);
  expect_same(networks::Espcn(), {2, 1, 9, 11});
  expect_same(networks::Fsrcnn(), {1, 1, 8, 7});
  expect_same(networks::UNet(), {2, 1, 16, 16});
  expect_same(networks::HifiGan(), {1, 6, 5});
  expect_same(networks::DcganGenerator(5, 4), {3, 5, 1, 1});
  expect_same(Sequential(Conv2d(3, 4, {.kernel_size = 3}), GroupNorm(2, 4), SiLU(), MaxPool2d(2),
                         Upsample({.scale_factor = {2.0}, .mode = Interpolation::kBilinear}), Flatten(),
                         Linear(4 * 6 * 6, 5), Softmax(1)),
              {2, 3, 8, 8});
}

TEST(Plan, RunsOnSeveralThreadsAndOnOthersThanItsMaker) {
  manual_seed(4);
  networks::Espcn net;
  net.eval();
  const Tensor x = Tensor::randn({1, 1, 40, 40}), expected = net(x);
  Plan wide(net, {x}, {.threads = 2});
  EXPECT_TRUE(same_bits(wide.run({x})[0], expected));
  std::vector<Plan> plans;
  for (int i = 0; i < 4; ++i) plans.emplace_back(net, Tensors{x});
  std::vector<std::thread> threads;
  std::vector<char> same(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    threads.emplace_back([&, i] {
      bool all = true;
      for (int repeat = 0; repeat < 20; ++repeat) all &= same_bits(plans[i].run({x})[0], expected);
      same[i] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, std::vector<char>(plans.size(), 1));
}

TEST(Plan, ResultsThatDoNotLiveTogetherShareMemory) {
  const auto f = [](const Tensors& in) {
    Tensor x = in[0];
    for (int i = 0; i < 50; ++i) x = sin(x);
    return Tensors{x};
  };
  const Plan plan(f, {Tensor::zeros({1024})});
  EXPECT_EQ(plan.size(), 50U);
  EXPECT_EQ(plan.nbytes(), 4U * 4096U);  // the input, the output, and two that follow each other
}

TEST(Plan, TakesAndGivesSeveralTensors) {
  const auto f = [](const Tensors& in) { return Tensors{in[0] + in[1], in[0], Tensor::ones({2}), in[1].select(0, 1)}; };
  Plan plan(f, {Tensor::zeros({3}), Tensor::zeros({3}, {.dtype = kInt64})});
  const Tensors& out = plan.run({Tensor::arange(3.0), Tensor::full({3}, 2, {.dtype = kInt64})});
  EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(out[1].to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(out[2].to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(out[3].item<std::int64_t>(), 2);
  EXPECT_EQ(&out, &plan.outputs());
  Tensor own = plan.inputs()[0];
  own.fill_(7);
  EXPECT_EQ(plan.run()[0].to_vector<float>(), (std::vector<float>{9, 9, 9}));
}

TEST(Plan, RepeatsWritesInPlace) {
  const auto f = [](const Tensors& in) {
    Tensor sum = Tensor::ones({3});        // holds a constant at first
    const Tensor before = sum + in[0];     // of the ones
    sum += in[0];                          // which each run must find again
    Tensor parts = Tensor::zeros({2, 3});  // keeps a row of zeros
    parts.select(0, 1).copy_(in[0]);
    Tensor x = in[0];
    x.mul_(2);
    Tensor constant = Tensor::ones({3});
    const Tensor early = in[0] * constant;
    constant.fill_(5);
    return Tensors{before, sum, parts, in[0] * 1, early, in[0] * constant};
  };
  const Tensor x = Tensor::arange(3.0);
  Plan plan(f, {x});
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 2}));
  for (const float scale : {1.0F, 3.0F}) {
    const Tensor input = x * scale;
    const Tensors& actual = plan.run({input});
    const Tensors expected = f({input.clone()});
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(actual[i], expected[i])) << i;
    EXPECT_TRUE(same_bits(input, x * scale));
  }
}

TEST(Plan, ReadsAnyStrides) {
  const auto f = [](const Tensors& in) { return Tensors{relu(in[0].transpose(0, 1)), in[0].sum(0)}; };
  const Tensor x = Tensor::arange(6).reshape({3, 2}).transpose(0, 1);
  Plan plan(f, {x});
  EXPECT_TRUE(same_bits(plan.run({x.contiguous()})[0], relu(x.transpose(0, 1))));
  Conv2d net(3, 4, {.kernel_size = 3});
  net.eval();
  const Tensor image = Tensor::randn({2, 3, 6, 6}).contiguous(kChannelsLast);
  Plan of_images(net, {image});
  EXPECT_EQ(of_images.outputs()[0].memory_format(), kChannelsLast);
  EXPECT_TRUE(same_bits(of_images.run({image})[0], net(image)));
}

TEST(Plan, KeepsMixedPrecision) {
  Linear net(4, 4);
  net.eval();
  const Tensor x = Tensor::randn({2, 4});
  std::optional<Plan> plan;
  Tensor expected;
  {
    const AutocastGuard guard(kBFloat16);
    plan.emplace(net, Tensors{x});
    expected = net(x);
  }
  EXPECT_EQ(plan->outputs()[0].dtype(), kBFloat16);
  EXPECT_TRUE(same_bits(plan->run({x})[0], expected));
}

TEST(Plan, IsNotRecorded) {
  Linear net(2, 2);
  net.eval();
  Plan plan(net, {Tensor::zeros({1, 2})});
  Tensor x = Tensor::ones({1, 2}).requires_grad_();
  Tape tape;
  const Tensor y = plan.run({x})[0];
  EXPECT_FALSE(y.requires_grad());
  EXPECT_ERROR(tape.backward(y.sum()), "");
}

TEST(Plan, FreezesTheWeightsThatItReads) {
  auto net = std::make_unique<Linear>(2, 2);
  net->eval();
  Tensor weight = net->weight;
  {
    Plan plan(*net, {Tensor::ones({1, 2})});
    EXPECT_ERROR(weight.fill_(1), "frozen");
    net.reset();
    plan.run({Tensor::ones({1, 2})});
  }
  weight.fill_(1);
}

/// Counts its calls in a buffer.
class Counting : public Module {
 public:
  Counting() : Module("Counting"), calls(register_buffer("calls", Tensor::zeros({}))) {}
  Tensor operator()(const Tensor& x) const {
    Tensor(calls).add_(1);
    return x + calls;
  }
  Buffer calls;
};

class Reading : public Module {
 public:
  Reading() : Module("Reading") {}
  Tensor operator()(const Tensor& x) const { return x * sum(x).item<float>(); }
};

TEST(Plan, RefusesWhatItCannotRepeat) {
  const Tensor x = Tensor::ones({2, 3});
  Counting counting;
  counting.eval();
  EXPECT_ERROR(Plan(counting, {x}), "Plan: a network must not write to tensors that were there before");
  EXPECT_EQ(counting.calls.item<float>(), 0);
  Sequential reading(Reading{});
  reading.eval();
  EXPECT_ERROR(Plan(reading, {x}),
               "0: Plan: a network must compute with operators alone; got item, which reads elements");
  Sequential training(Dropout(0.5));
  EXPECT_ERROR(Plan(training, {x}), "Plan: the network must be in eval mode");
  const auto f = [](const Tensors& in) { return in; };
  EXPECT_ERROR(Plan([](const Tensors& in) { return Tensors{dropout(in[0], 0.5, true)}; }, {x}), "random numbers");
  EXPECT_ERROR(Plan([](const Tensors&) { return Tensors{Tensor()}; }, {x}), "outputs must be defined");
  EXPECT_ERROR(Plan(f, {}), "Plan: there must be an input");
  EXPECT_ERROR(Plan(f, {Tensor()}), "Plan: inputs must be defined");
  EXPECT_ERROR(Plan(f, {x}, {.threads = 0}), "the number of threads must be positive; got 0");
  Linear linear(3, 3);
  linear.eval();
  EXPECT_ERROR(Plan(linear, {x, x}), "as many inputs as the network accepts");
  Plan plan(f, {x});
  EXPECT_ERROR(plan.run({Tensor::ones({3, 2})}), "inputs must be as planned; got float32 (3, 2)");
  EXPECT_ERROR(plan.run({x.to(kFloat64)}), "got float64");
  EXPECT_ERROR(plan.run({Tensor()}), "got Tensor{}");
  EXPECT_ERROR(plan.run({x, x}), "there must be 1 inputs; got 2");
  const Plan taken = std::move(plan);
  EXPECT_ERROR(plan.run({x}), "got one that was moved from");
  EXPECT_EQ(taken.size(), 0U);
}

TEST(Plan, ErrorsOfARunNameTheOperator) {
  const Tensor table = Tensor::arange(4);
  Plan plan([&](const Tensors& in) { return Tensors{index_select(table, 0, in[0])}; },
            {Tensor::zeros({2}, {.dtype = kInt64})});
  EXPECT_ERROR(plan.run({Tensor::full({2}, 9, {.dtype = kInt64})}), "index_select: indices must lie in [0, 4); got 9");
  EXPECT_EQ(plan.run({Tensor::full({2}, 3, {.dtype = kInt64})})[0].to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{3, 3}));
  const Tensor target = Tensor::zeros({2}, {.dtype = kInt64});
  Plan loss([](const Tensors& in) { return Tensors{cross_entropy(in[0], in[1])}; }, {Tensor::ones({2, 3}), target});
  EXPECT_ERROR(loss.run({Tensor::ones({2, 3}), target + 3}), "cross_entropy: a target must be in [0, 3)");
}

}  // namespace
}  // namespace adjoint::nn

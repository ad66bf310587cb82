#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/functional_call.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/reparametrize.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

Tensor numbers(const Shape& shape, int seed) {
  return Tensor::from_vector(testing::integers(static_cast<std::size_t>(shape.numel()), 9, seed), shape,
                             {.dtype = kFloat64}) /
         8.0;
}

Sequential net() {
  Sequential net{Linear(3, 4), Tanh(), Linear(4, 2)};
  net.to(kFloat64);
  int seed = 1;
  for (Tensor& parameter : net.parameters()) {
    const Tensor values = numbers(parameter.shape(), seed++);
    parameter.copy_(values);
  }
  return net;
}

std::vector<Tensor> tensors_of(const NamedTensors& named) {
  std::vector<Tensor> all;
  for (const auto& [name, tensor] : named) all.push_back(tensor);
  return all;
}

TEST(FunctionalCall, ComputesWithWhatIsGiven) {
  const Sequential own = net(), other = net();
  for (Tensor& parameter : other.parameters()) parameter.mul_(2.0);
  const Tensor x = numbers({5, 3}, 9), before = own(x);
  expect_same_bits("all", functional_call(own, other.named_parameters(), x), other(x));
  expect_same_bits("its own again", own(x), before);
  const Tensor bias = numbers({2}, 11);
  const Tensor expected = before - own.named_parameters().back().second + bias;
  const Tensor found = functional_call(own, {{"2.bias", bias}}, x);
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-14);
}

TEST(FunctionalCall, GradientsGoToWhatIsGiven) {
  const Sequential own = net();
  const Tensor x = numbers({5, 3}, 9);
  const NamedTensors names = own.named_parameters();
  const auto call = [&](const std::vector<Tensor>& in) {
    NamedTensors given;
    for (std::size_t i = 0; i < names.size(); ++i) given.emplace_back(names[i].first, in[i]);
    return square(functional_call(own, given, x));
  };
  std::vector<Tensor> values;
  for (const auto& [name, parameter] : names) values.push_back(parameter.detach().clone());
  EXPECT_TRUE(gradcheck(call, values));
  EXPECT_TRUE(gradgradcheck(call, values));
  for (const Tensor& parameter : own.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

// The loss on one task after an inner step on another, as a function of the first weights.
Tensor maml_loss(const Sequential& model, const std::vector<Tensor>& weights, const std::vector<Tensor>& data) {
  const NamedTensors names = model.named_parameters();
  NamedTensors fast;
  for (std::size_t i = 0; i < names.size(); ++i) fast.emplace_back(names[i].first, weights[i]);
  for (int step = 0; step < 2; ++step) {
    const std::vector<Tensor> now = tensors_of(fast);
    const Tensor loss = mse_loss(functional_call(model, fast, data[0]), data[1]);
    const std::vector<Tensor> gradients = gradient(loss, now, {.record = true});
    for (std::size_t i = 0; i < fast.size(); ++i) fast[i].second = now[i] - 0.1 * gradients[i];
  }
  return mse_loss(functional_call(model, fast, data[2]), data[3]);
}

TEST(FunctionalCall, DifferentiatesThroughInnerSteps) {
  const Sequential model = net();
  const std::vector<Tensor> data{numbers({4, 3}, 21), numbers({4, 2}, 22), numbers({4, 3}, 23), numbers({4, 2}, 24)};
  const std::vector<Tensor> weights = model.parameters();
  std::vector<Tensor> found;
  {
    Tape tape;
    found = tape.gradient(maml_loss(model, weights, data), weights);
  }
  // Central differences, in the weights one by one.
  constexpr double kStep = 1e-5;
  const auto loss_at = [&](std::size_t which, std::int64_t place, double offset) {
    std::vector<Tensor> moved;
    for (const Tensor& weight : weights) moved.push_back(weight.detach().clone());
    Tensor flat = moved[which].reshape({moved[which].numel()});
    flat.narrow(0, place, 1).add_(offset);
    for (Tensor& weight : moved) weight.requires_grad_();
    const Tape tape;
    return maml_loss(model, moved, data).item<double>();
  };
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::vector<double> gradient = found[i].to_vector<double>();
    for (std::int64_t place = 0; place < weights[i].numel(); ++place) {
      const double slope = (loss_at(i, place, kStep) - loss_at(i, place, -kStep)) / (2.0 * kStep);
      ASSERT_NEAR(gradient[static_cast<std::size_t>(place)], slope, 1e-7) << i << " " << place;
    }
  }
  for (const Tensor& weight : weights) EXPECT_TRUE(weight.requires_grad());
}

TEST(FunctionalCall, BuffersAreThoseGiven) {
  BatchNorm1d norm(2);
  const Tensor x = Tensor::from_vector<float>({1, 2, 3, 4, 5, 7}, {3, 2});
  const Tensor own = norm.named_buffers()[0].second.clone();
  Tensor mean = Tensor::zeros({2});
  static_cast<void>(functional_call(norm, {{"running_mean", mean}}, x));
  expect_same_bits("the module's", norm.named_buffers()[0].second, own);
  EXPECT_GT(mean.to_vector<float>()[0], 0.0F);
}

TEST(FunctionalCall, TiedTensorsAreReplacedTogether) {
  Sequential tied{Linear(2, 2), Linear(2, 2)};
  tied.to(kFloat64);
  Linear first = tied[0].as<Linear>(), second = tied[1].as<Linear>();
  second.weight = first.weight;
  const Tensor w = numbers({2, 2}, 3), x = numbers({1, 2}, 4), none = Tensor::zeros({2}, {.dtype = kFloat64});
  const Tensor y = functional_call(tied, {{"0.weight", w}, {"0.bias", none}, {"1.bias", none}}, x);
  EXPECT_LT((y - matmul(matmul(x, w.t()), w.t())).abs().max().item<double>(), 1e-14);
}

TEST(FunctionalCall, PartsOfReparametrisedOnesAreReplaced) {
  const Linear linear = weight_norm(Linear(2, 2));
  const Tensor x = Tensor::ones({1, 2}), before = linear(x), g = linear.named_parameters()[1].second;
  ASSERT_EQ(linear.named_parameters()[1].first, "weight_g");
  const Tensor doubled = functional_call(linear, {{"weight_g", g.detach() * 2.0}, {"bias", Tensor::zeros({2})}}, x);
  EXPECT_LT((doubled - (before - linear.bias) * 2.0).abs().max().item<float>(), 1e-5F);
  EXPECT_ERROR(functional_call(linear, {{"weight", Tensor::zeros({2, 2})}}, x), "by its parts; got 'weight'",
               "weight_norm");
}

TEST(FunctionalCall, HasItsOwnAgainAfterAnError) {
  const Sequential own = net();
  const Tensor x = numbers({5, 3}, 9), before = own(x);
  const Tensor weight = numbers({4, 3}, 5);
  EXPECT_ERROR(functional_call(own, {{"0.weight", weight}}, numbers({5, 2}, 9)), "0: ");
  expect_same_bits("after a call that throws", own(x), before);
  EXPECT_ERROR(functional_call(own, {{"0.weight", weight}, {"3.weight", weight}}, x),
               "functional_call: names must be those of parameters and buffers, each once; got '3.weight'");
  EXPECT_ERROR(functional_call(own, {{"0.weight", weight}, {"0.weight", weight}}, x), "got '0.weight'");
  EXPECT_ERROR(functional_call(own, {{"0.weight", Tensor{}}}, x), "got Tensor{} for '0.weight', which is (4, 3)");
  EXPECT_ERROR(functional_call(own, {{"0.weight", numbers({3, 3}, 1)}}, x), "got (3, 3) for '0.weight'");
  expect_same_bits("after names that do not fit", own(x), before);
}

}  // namespace
}  // namespace adjoint::nn

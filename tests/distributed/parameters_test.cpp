// The parameters that a sweep averages: those that require a gradient at that time, with zeros for those that a rank's
// loss leaves out.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/distributed/networks.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint::distributed {
namespace {

// y = w x, with w = 0, so that a sweep's gradient is x.
nn::Linear scale() {
  nn::Linear net(1, 1, {.bias = false});
  net.to(kFloat64);
  net.to(default_device());
  net.weight.tensor().zero_();
  return net;
}
Tensor number(double value) { return Tensor::full({1, 1}, value, options(kFloat64)); }
double item(const nn::Linear& net) { return net.weight.tensor().item<double>(); }

// In each step another rank has a different loss; the first is rank 0's, which determines the order of buckets.
void one_rank_leaves_all_out(bool through_model) {
  nn::Linear net = scale();
  DataParallel model(net, {.find_unused_parameters = true});
  optim::SGD sgd(net.parameters(), {.lr = 1.0});
  Tensor own = number(1);
  own.requires_grad_();
  double expected = 0;
  for (int step = 0; step < 3 * world_size(); ++step) {
    const int odd = step % world_size();
    Tape tape;
    const Tensor x = number(step + 1.0);
    Tensor loss = own.square().sum();
    if (through_model || rank() != odd) {
      const Tensor y = through_model ? model(x) : net(x);
      if (rank() != odd) loss = loss + y.sum();
    }
    tape.backward(loss);
    EXPECT_EQ(net.weight.tensor().grad().defined(), world_size() > 1);
    sgd.step();
    sgd.zero_grad();
    expected -= (step + 1.0) * (world_size() - 1) / world_size();
    EXPECT_NEAR(item(net), expected, 1e-12) << step;
    EXPECT_EQ(own.grad().item<double>(), 2.0 * (step + 1)) << "this rank's alone, added to what was there";
  }
  expect_same_on_every_rank(net.named_parameters());
}

TEST(DataParallel, ARankWhoseLossUsesNoParameterCountsAsZeros) {
  one_rank_leaves_all_out(true);
  one_rank_leaves_all_out(false);
}

TEST(DataParallel, NothingIsSummedWhereNoRankUsesAParameter) {
  nn::Linear net = scale();
  DataParallel model(net, {.find_unused_parameters = true});
  Tensor own = number(1);
  own.requires_grad_();
  for (int step = 0; step < 2; ++step) {
    {
      Tape tape;
      tape.backward(own.sum());
      EXPECT_FALSE(net.weight.tensor().grad().defined());
    }
    Tape tape;
    tape.backward(model(number(rank() + 1.0)).sum());
    EXPECT_EQ(net.weight.tensor().grad().item<double>(), (world_size() + 1) / 2.0);
    const Tensor before = net.weight.tensor().grad().clone();
    tape.backward(own.sum());  // leaves the gradient unchanged
    EXPECT_EQ(net.weight.tensor().grad().item<double>(), before.item<double>());
    net.zero_grad();
  }
}

// The order of their sums cannot be that in which a sweep gets their gradients.
TEST(DataParallel, RanksUseSeveralNetworksInDifferentOrders) {
  nn::Linear first = scale(), second = scale();
  DataParallel one(first, {.find_unused_parameters = true}), two(second, {.find_unused_parameters = true});
  first.weight.tensor().fill_(1.0), second.weight.tensor().fill_(1.0);
  for (int step = 0; step < 4; ++step) {
    first.zero_grad(), second.zero_grad();
    const Tensor x = number(rank() + 1.0);
    Tape tape;
    const bool turned = (rank() + step) % 2 == 1, left_out = rank() == 1 && step == 3;
    const Tensor y = left_out ? one(x) : turned ? one(two(x)) : two(one(x));
    tape.backward(y.sum());
    const double average = (world_size() + 1) / 2.0;
    EXPECT_EQ(first.weight.tensor().grad().item<double>(), average);
    const double without = step == 3 && world_size() > 1 ? 2.0 / world_size() : 0.0;
    EXPECT_EQ(second.weight.tensor().grad().item<double>(), average - without);
  }
}

TEST(DataParallel, FrozenParametersAreLeftAlone) {
  nn::Linear first = scale(), second = scale();
  nn::Sequential net{first, second};
  for (const bool find_unused : {false, true}) {
    first.requires_grad_(true);
    first.weight.tensor().fill_(1.0), second.weight.tensor().fill_(1.0);
    DataParallel model(net, {.find_unused_parameters = find_unused});
    optim::AdamW adam(net.parameters(), {.lr = 0.1, .weight_decay = 0.5});
    const auto step = [&] {
      Tape tape;
      tape.backward(model(number(rank() + 1.0)).sum());
      adam.step();
      adam.zero_grad();
    };
    step();
    first.requires_grad_(false);
    const double frozen = item(first), trained = item(second);
    for (int i = 0; i < 2; ++i) {
      {
        Tape tape;
        tape.backward(model(number(rank() + 1.0)).sum());
      }
      EXPECT_FALSE(first.weight.tensor().grad().defined());
      EXPECT_NEAR(second.weight.tensor().grad().item<double>(), frozen * (world_size() + 1) / 2.0, 1e-12);
      adam.step();
      adam.zero_grad();
    }
    EXPECT_EQ(item(first), frozen);
    EXPECT_NE(item(second), trained);
    first.requires_grad_(true);
    step();
    EXPECT_NE(item(first), frozen);
    expect_same_on_every_rank(net.named_parameters());
  }
}

TEST(DataParallel, ThawedParametersAreAveraged) {
  nn::Linear first = scale(), second = scale();
  nn::Sequential net{first, second};
  first.requires_grad_(false);
  DataParallel model(net);
  first.weight.tensor().fill_(1.0), second.weight.tensor().fill_(1.0);
  const double average = (world_size() + 1) / 2.0;
  const auto sweep = [&] {
    net.zero_grad();
    Tape tape;
    tape.backward(model(number(rank() + 1.0)).sum());
    EXPECT_EQ(second.weight.tensor().grad().item<double>(), average);
  };
  sweep();
  EXPECT_FALSE(first.weight.tensor().grad().defined());
  first.requires_grad_(true);
  const void* place = nullptr;
  for (int i = 0; i < 3; ++i) {
    sweep();
    EXPECT_EQ(first.weight.tensor().grad().item<double>(), average) << i;
    if (i > 0 && world_size() > 1) {
      EXPECT_EQ(first.weight.tensor().grad().raw_data(), place);
    }
    place = first.weight.tensor().grad().raw_data();
  }
  // Parameters that the tape recorded are averaged, even if they are frozen by then.
  net.zero_grad();
  Tape tape;
  const Tensor loss = model(number(rank() + 1.0)).sum();
  first.requires_grad_(false);
  tape.backward(loss);
  EXPECT_EQ(first.weight.tensor().grad().item<double>(), average);
}

// As a GAN's discriminator is in its generator's step: its buckets stay.
TEST(DataParallel, ANetworkThatIsFrozenForAWhileKeepsItsBuckets) {
  nn::Linear generator = scale(), critic = scale();
  DataParallel g(generator), d(critic);
  generator.weight.tensor().fill_(1.0), critic.weight.tensor().fill_(1.0);
  const void* place = nullptr;
  for (int step = 0; step < 3; ++step) {
    {
      Tape tape;
      tape.backward(d(g(number(1.0)).detach()).sum());
      EXPECT_EQ(critic.weight.tensor().grad().item<double>(), 1.0);
      EXPECT_FALSE(generator.weight.tensor().grad().defined());
      if (step > 0 && world_size() > 1) {
        EXPECT_EQ(critic.weight.tensor().grad().raw_data(), place);
      }
      place = critic.weight.tensor().grad().raw_data();
    }
    critic.zero_grad();
    critic.requires_grad_(false);
    {
      Tape tape;
      tape.backward(d(g(number(1.0))).sum());
      EXPECT_EQ(generator.weight.tensor().grad().item<double>(), 1.0);
      EXPECT_FALSE(critic.weight.tensor().grad().defined());
    }
    critic.requires_grad_(true);
    generator.zero_grad();
  }
}

TEST(DataParallel, ParametersOfOthersThrow) {
  if (world_size() == 1) GTEST_SKIP() << "in a world of one gradients are what they are";
  nn::Linear shared = scale(), own = scale();
  shared.requires_grad_(false);
  nn::Sequential a{shared, own}, b{shared, scale()};
  DataParallel one(a), two(b);
  shared.requires_grad_(true);
  {
    Tape tape;
    tape.backward(one(number(1.0)).sum());  // who sweeps first has it
  }
  Tape tape;
  EXPECT_ERROR(tape.backward(two(number(1.0)).sum()), "one DataParallel at a time", "(1, 1)");
  Tensor assigned = number(1.0);
  own.weight = assigned.requires_grad_();
  Tape again;
  EXPECT_ERROR(again.backward(one(number(1.0)).sum()), "DataParallel", "another tensor as '1.weight'", "anew");
}

}  // namespace
}  // namespace adjoint::distributed

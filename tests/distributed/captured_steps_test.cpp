// Data-parallel steps that are captured as CUDA graphs.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/graph/step_graphs.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/optim/adam.h>
#include <adjoint/tests/distributed/networks.h>
#include <adjoint/tests/support/pretend_step_device.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace adjoint::distributed {
namespace {

// Over MPI a graph cannot hold a sum; the error is tested with a device that pretends to record.
TEST(DataParallel, WhatACapturedStepCannotHoldIsNamed) {
  if (world_size() == 1 || default_device().is_cuda()) GTEST_SKIP() << "needs ranks on CPUs";
  using Steps = adjoint::detail::StepGraphs;
  nn::Linear net(2, 2);
  const auto step = [&](const auto& model, bool zero) {
    return [&net, &model, zero](const std::vector<Tensor>&) -> std::vector<Tensor> {
      if (zero) net.zero_grad();
      Tape tape;
      tape.backward(model(Tensor::ones({1, 2})).sum());
      return {};
    };
  };
  const auto error_of = [](Steps& steps) -> std::string {
    try {
      steps.run({});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto device = [] { return std::make_shared<adjoint::testing::PretendDevice>(); };
  {
    DataParallel model(net);
    Steps first(step(model, true), {.device = kCPU}, device());
    // Another step made it warm, not this network's sweep.
    bool sweeps = false;
    Steps other([&](const std::vector<Tensor>& in)
                    -> std::vector<Tensor> { return sweeps ? step(model, true)(in) : std::vector<Tensor>{}; },
                {.device = kCPU}, device());
    other.run({});
    sweeps = true;
    EXPECT_NE(error_of(other).find("must find the buckets made; got the first sweep"), std::string::npos);
    first.run({});
    const std::string sum = error_of(first);
    EXPECT_NE(sum.find("all_reduce: a captured step"), std::string::npos) << sum;
    EXPECT_NE(sum.find("DataParallel, bucket 0"), std::string::npos) << sum;
    Steps adds(step(model, false), {.device = kCPU}, device());
    adds.run({});
    const std::string added = error_of(adds);
    EXPECT_NE(added.find("must begin its sweep without gradients in the buckets"), std::string::npos) << added;
    net.zero_grad();
    step(model, true)({});  // nothing is broken
    EXPECT_TRUE(net.weight.tensor().grad().defined());
  }
  DataParallel unused(net, {.find_unused_parameters = true});
  Steps asks(step(unused, true), {.device = kCPU}, device());
  asks.run({});
  const std::string asked = error_of(asks);
  EXPECT_NE(asked.find("find_unused_parameters"), std::string::npos) << asked;
}

// To the bits of the steps without a graph, with the buffers and sums inside, and sums of gradients before them.
TEST(DataParallel, CapturedStepsAreTheUncapturedOnes) {
  if (!default_device().is_cuda()) GTEST_SKIP() << "no CUDA device";
  for (const int max_ctas : {0, 4}) {
    manual_seed(9);
    nn::Sequential eager_net = network(), graphed_net = network();
    graphed_net.load_state_dict(eager_net.state_dict());
    if (max_ctas == 0) {  // once with its sums, once with buffers that follow rank 0
      convert_sync_batchnorm(eager_net);
      convert_sync_batchnorm(graphed_net);
    }
    DataParallel eager(eager_net, {.bucket_bytes = 300, .max_ctas = max_ctas});
    DataParallel graphed(graphed_net, {.bucket_bytes = 300, .max_ctas = max_ctas});
    optim::Adam eager_adam(eager_net.parameters(), {.lr = 1e-2}), graphed_adam(graphed_net.parameters(), {.lr = 1e-2});
    const auto step_of = [](auto& model, optim::Adam& adam) {
      return [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const auto sweep = [&] {
          Tape tape;
          const Tensor loss = mse_loss(model(in[0]), in[1]);
          tape.backward(loss);
          return loss;
        };
        adam.zero_grad();
        {
          const auto alone = model.no_sync();
          sweep();
        }
        const Tensor loss = sweep();
        adam.step();
        return {loss};
      };
    };
    const auto eager_step = step_of(eager, eager_adam);
    GraphedStep graphed_step(step_of(graphed, graphed_adam));
    std::vector<Batch> batches;  // made before: each sets the seed, and a graph holds for one
    for (int step = 0; step < 12; ++step) batches.push_back(batch(step));
    for (int step = 0; step < 12; ++step) {
      const auto& [x, y] = batches[static_cast<std::size_t>(step)];
      const auto expected = eager_step({part(x), part(y)});
      const auto got = graphed_step({part(x), part(y)});
      ASSERT_EQ(got[0].to_vector<double>(), expected[0].to_vector<double>()) << step;
    }
    if (world_size() > 1) {
      EXPECT_EQ(graphed_step.num_graphs(), 1U);
    }
    expect_near(graphed_net.state_dict(), eager_net.state_dict(), 0.0);
    expect_same_on_every_rank(graphed_net.state_dict());
  }
}

}  // namespace
}  // namespace adjoint::distributed

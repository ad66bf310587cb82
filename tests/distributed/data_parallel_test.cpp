#include <adjoint/core/precision.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tape.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/distributed/collectives.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/ema.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace adjoint::distributed {
namespace {

constexpr std::int64_t kBatch = 8;

// Networks and batches are on each rank's GPU where there are GPUs.
TensorOptions options(DType dtype) { return {.dtype = dtype, .device = default_device()}; }

nn::Sequential network() {
  nn::Sequential net{nn::Conv2d(2, 4, {.kernel_size = 3, .padding = 1}), nn::BatchNorm2d(4), nn::ReLU(),
                     nn::ConvTranspose2d(4, 2, {.kernel_size = 4, .stride = 2, .padding = 1})};
  net.to(kFloat64);
  net.to(default_device());
  return net;
}

struct Batch {
  Tensor x, y;
};
Batch batch(int step) {
  manual_seed(100 + static_cast<std::uint64_t>(step));
  return {Tensor::randn({kBatch, 2, 6, 6}, options(kFloat64)), Tensor::randn({kBatch, 2, 12, 12}, options(kFloat64))};
}
Tensor part(const Tensor& whole) {
  const std::int64_t length = whole.size(0) / world_size();
  return whole.narrow(0, rank() * length, length).contiguous();
}

void expect_near(const NamedTensors& a, const NamedTensors& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].second.to_vector<double>(), y = b[i].second.to_vector<double>();
    for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], tolerance) << a[i].first << " " << k;
  }
}
void expect_same_on_every_rank(const NamedTensors& state) {
  for (const auto& [name, tensor] : state) {
    EXPECT_EQ(broadcast(tensor.detach()).to_vector<double>(), tensor.to_vector<double>()) << name;
  }
}

TEST(DataParallel, TrainsAsOneRankDoesOnTheWholeBatch) {
  manual_seed(static_cast<std::uint64_t>(rank()));  // parameters differ, until they follow rank 0's
  nn::Sequential net = network();
  convert_sync_batchnorm(net);
  DataParallel model(net, {.bucket_bytes = 300});
  nn::Sequential whole = network();
  whole.load_state_dict(net.state_dict());

  optim::Adam adam(net.parameters(), {.lr = 1e-2}), whole_adam(whole.parameters(), {.lr = 1e-2});
  optim::EMA ema(net, {.decay = 0.9}), whole_ema(whole, {.decay = 0.9});
  for (int step = 0; step < 20; ++step) {
    const auto [x, y] = batch(step);
    {
      Tape tape;
      tape.backward(mse_loss(model(part(x)), part(y)));
    }
    {
      Tape tape;
      tape.backward(mse_loss(whole(x), y));
    }
    const double norm = optim::clip_grad_norm_(net.parameters(), 0.5).item<double>();
    EXPECT_NEAR(norm, optim::clip_grad_norm_(whole.parameters(), 0.5).item<double>(), 1e-9);
    adam.step(), whole_adam.step();
    adam.zero_grad(), whole_adam.zero_grad();
    ema.update(), whole_ema.update();
  }
  expect_near(net.state_dict(), whole.state_dict(), 1e-9);
  expect_near(ema.state_dict(), whole_ema.state_dict(), 1e-9);
  expect_same_on_every_rank(net.state_dict());
  EXPECT_GT(model.buckets().size(), 2U);
  EXPECT_EQ(model.buckets()[0][0].substr(0, 2), "3.");  // what the sweep reaches first
}

// In TF32 on GPUs, which CPUs compute as float32.
TEST(DataParallel, LossesAreThoseOfTheWholeBatchInTF32) {
  const Precision before = float32_precision();
  set_float32_precision(Precision::kTF32);
  manual_seed(11);
  nn::Sequential net = network(), whole = network();
  convert_sync_batchnorm(net);
  net.to(kFloat32), whole.to(kFloat32);
  DataParallel model(net);
  whole.load_state_dict(net.state_dict());
  optim::Adam adam(net.parameters(), {.lr = 1e-3}), whole_adam(whole.parameters(), {.lr = 1e-3});
  for (int step = 0; step < 10; ++step) {
    const auto [x, y] = batch(step);
    const auto take = [&](auto& network, optim::Adam& optimizer, const Tensor& in, const Tensor& out) {
      Tape tape;
      const Tensor loss = mse_loss(network(in.to(kFloat32)), out.to(kFloat32));
      tape.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      return loss.detach();
    };
    const double expected = take(whole, whole_adam, x, y).item<double>();
    const Tensor own = take(model, adam, part(x), part(y));
    EXPECT_NEAR(all_reduce(own, ReduceOp::kAvg).item<double>(), expected, 1e-3 * expected);
  }
  set_float32_precision(before);
}

TEST(DataParallel, NoSyncAccumulatesAndTheNextSweepAverages) {
  manual_seed(1);
  nn::Linear net(3, 2);
  net.to(kFloat64);
  net.to(default_device());
  DataParallel model(net);
  const Tensor x = Tensor::full({4, 3}, rank() + 1.0, options(kFloat64));
  const auto sweep = [&] {
    Tape tape;
    tape.backward(model(x).sum());
  };
  {
    const auto alone = model.no_sync();
    sweep();
    EXPECT_EQ(net.weight.tensor().grad().to_vector<double>(), std::vector<double>(6, 4.0 * (rank() + 1)));
  }
  const double average = 4.0 * (world_size() + 1) / 2.0;
  sweep();
  EXPECT_EQ(net.weight.tensor().grad().to_vector<double>(), std::vector<double>(6, 2 * average));
  sweep();  // without zero_grad() it is added to
  EXPECT_EQ(net.weight.tensor().grad().to_vector<double>(), std::vector<double>(6, 3 * average));
  Tape tape;  // gradient() averages nothing
  EXPECT_EQ(tape.gradient(model(x).sum(), {net.weight.tensor()})[0].to_vector<double>(),
            std::vector<double>(6, 4.0 * (rank() + 1)));
}

TEST(DataParallel, UnusedParametersCountAsZeros) {
  manual_seed(2);
  nn::Linear a(2, 2), b(2, 2), c(2, 2);
  nn::Module both;
  both.register_module("a", a);
  both.register_module("b", b);
  both.register_module("c", c);
  nn::Sequential net{a, b, c};
  net.to(default_device());
  DataParallel model(net, {.find_unused_parameters = true});
  const Tensor x = Tensor::ones({1, 2}, options(kFloat32));
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    net.zero_grad();
    Tensor loss = a(x).sum();
    if (rank() == 0) loss = loss + b(x).sum();  // c nowhere
    tape.backward(loss);
    EXPECT_EQ(a.bias.tensor().grad().to_vector<float>(), std::vector<float>(2, 1.0F));
    EXPECT_EQ(b.bias.tensor().grad().to_vector<float>(),
              std::vector<float>(2, 1.0F / static_cast<float>(world_size())));
    EXPECT_FALSE(c.bias.tensor().grad().defined());
  }
}

TEST(DataParallel, BuffersFollowRank0) {
  nn::BatchNorm1d net(2);
  net.to(default_device());
  DataParallel model(net);
  const Tensor x = Tensor::randn({5, 2}, options(kFloat32)) + static_cast<double>(rank());
  for (int step = 0; step < 2; ++step) {
    Tape tape;
    tape.backward(model(x).sum());
  }
  Tape tape;
  net.eval();
  net.train();
  model(Tensor::zeros({2, 2}, options(kFloat32)) + 0.0);
  const Tensor follows = net.running_mean.tensor();
  EXPECT_EQ(broadcast(follows).to_vector<float>(), follows.to_vector<float>());
}

TEST(DataParallel, SyncBatchNormTakesUnequalBatches) {
  nn::SyncBatchNorm sync(3);
  nn::BatchNorm2d plain(3);
  sync.to(kFloat64), plain.to(kFloat64);
  sync.to(default_device()), plain.to(default_device());
  manual_seed(7);
  const std::int64_t rows = world_size() * (world_size() + 1) / 2;
  Tensor x = Tensor::randn({rows, 3, 4, 4}, options(kFloat64));
  const std::int64_t begin = rank() * (rank() + 1) / 2;
  Tensor own = x.narrow(0, begin, rank() + 1).contiguous();
  own.requires_grad_(), x.requires_grad_();
  Tape tape;
  const Tensor y = sync(own), expected = plain(x);
  tape.backward((y * y * y).sum(), {.retain = true});
  tape.backward((expected * expected * expected).sum(), {.retain = true});
  const auto expected_gradient = x.grad().narrow(0, begin, rank() + 1).to_vector<double>();
  const auto gradient = own.grad().to_vector<double>();
  for (std::size_t i = 0; i < gradient.size(); ++i) ASSERT_NEAR(gradient[i], expected_gradient[i], 1e-10);
  expect_near(sync.named_buffers(), plain.named_buffers(), 1e-12);
}

TEST(DataParallel, BadUseThrows) {
  nn::Linear net(2, 2);
  net.to(default_device());
  EXPECT_ERROR(DataParallel(net, {.bucket_bytes = 0}), "bucket_bytes", "0");
  DataParallel model(net);
  EXPECT_ERROR(DataParallel(net), "one of them at a time");
  Tape tape;
  EXPECT_ERROR(tape.backward(model(Tensor::ones({1, 2}, options(kFloat32))).sum(), {.record = true}), ".record");
  EXPECT_FALSE(net.weight.tensor().grad().defined());
}

}  // namespace
}  // namespace adjoint::distributed

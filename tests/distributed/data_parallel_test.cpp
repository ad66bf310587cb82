#include <adjoint/core/autograd/custom.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/distributed/collectives.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/ema.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/distributed/networks.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::distributed {
namespace {

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
  if (world_size() == 1) return;  // which has no buckets
  EXPECT_GT(model.buckets().size(), 2U);
  EXPECT_EQ(model.buckets()[0][0].substr(0, 2), "3.");  // the layer that the sweep reaches first
  std::string buckets;
  for (const std::vector<std::string>& bucket : model.buckets()) {
    for (const std::string& name : bucket) buckets += name + " ";
    buckets += "\n";
  }
  EXPECT_EQ(broadcast_text(buckets, 0, "test"), buckets);
}

// The state after five steps.
NamedTensors trained(bool flat = false) {
  manual_seed(4);
  nn::Sequential net = network();
  DataParallel model(net, {.bucket_bytes = 300});
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  if (flat) adam.flatten_gradients();
  for (int step = 0; step < 5; ++step) {
    const auto [x, y] = batch(step);
    Tape tape;
    tape.backward(mse_loss(model(part(x)), part(y)));
    adam.step();
    adam.zero_grad();
  }
  return net.state_dict();
}

TEST(DataParallel, TrainingAgainGivesTheSameBits) { expect_near(trained(), trained(), 0.0); }

// Gradients are in the buckets, and the contents of the optimiser's buffer, zeros, are added to them.
TEST(DataParallel, FlatGradientsGiveTheSameBits) { expect_near(trained(true), trained(), 0.0); }

TEST(DataParallel, AnotherStreamGivesTheSameBits) {
  if (!default_device().is_cuda()) GTEST_SKIP() << "no CUDA device";
  const NamedTensors expected = trained();
  const Stream stream = Stream::create(default_device());
  const StreamGuard guard(stream);
  expect_near(trained(), expected, 0.0);
}

// Once rank 0 has the gradients of the layer that the sweep reaches first, their sum is there before the sweep ends.
TEST(DataParallel, SumsStartDuringTheSweep) {
  if (world_size() == 1 || default_device().is_cuda()) GTEST_SKIP() << "needs ranks on CPUs, whose sums can be seen";
  nn::Linear first(2, 2, {.bias = false}), second(2, 2, {.bias = false});
  nn::Sequential net{first, second};
  DataParallel model(net, {.bucket_bytes = 1});
  const float* sum = nullptr;
  std::vector<float> seen;
  for (int sweep = 0; sweep < 2; ++sweep) {
    net.zero_grad();
    if (sweep == 1) {
      first.weight.tensor().register_hook([&](const Tensor&) {
        seen.assign(sum, sum + 4);
        return Tensor{};
      });
    }
    Tape tape;
    tape.backward((model(Tensor::ones({1, 2})) * (rank() + 1.0 + 10.0 * sweep)).sum());
    sum = second.weight.tensor().grad().data<float>();  // which stays
  }
  EXPECT_EQ(seen, second.weight.tensor().grad().to_vector<float>());
  EXPECT_NE(seen[0], 0.0F);
}

// In TF32 on GPUs, which CPUs compute as float32.
TEST(DataParallel, LossesAreThoseOfTheWholeBatchInTF32) {
  const Precision before = float32_precision();
  set_float32_precision(Precision::kTF32);
  manual_seed(11);
  nn::Sequential net = network(32), whole = network(32);  // as many channels as TF32's products need
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
    expect_same_on_every_rank(net.named_buffers());
  }
  // Buffers of a layer in eval mode, which backward passes still read.
  net.eval();
  const Tensor mean = net.running_mean.tensor().clone();
  Tape tape;
  const Tensor loss = model(x).square().sum();
  tape.backward(loss, {.retain = true});
  tape.backward(loss);
  EXPECT_EQ(net.running_mean.tensor().to_vector<float>(), mean.to_vector<float>());
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

// From the second sweep on: the addresses stay, and nothing is copied.
TEST(DataParallel, GradientsAreComputedInTheirBuckets) {
  manual_seed(5);
  nn::Sequential net = network();
  DataParallel model(net, {.bucket_bytes = 300});
  const auto [x, y] = batch(0);
  std::vector<const void*> places;
  for (int sweep = 0; sweep < 4; ++sweep) {
    net.zero_grad();
    Tape tape;
    tape.backward(mse_loss(model(part(x)), part(y)));
    const std::vector<Tensor> parameters = net.parameters();
    if (world_size() == 1) continue;
    EXPECT_EQ(model.num_copied(), sweep == 0 ? parameters.size() : 0U);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const void* const place = parameters[i].grad().raw_data();
      if (sweep == 0) places.push_back(place);
      EXPECT_EQ(place, places[i]);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % 64, 0U);
    }
  }
  // Held gradients keep their elements, and the next ones go elsewhere.
  const Tensor held = net.parameters()[0].grad();
  const std::vector<double> values = held.to_vector<double>();
  net.zero_grad();
  Tape tape;
  tape.backward(mse_loss(model(part(x)) * 2.0, part(y)));
  EXPECT_EQ(held.to_vector<double>(), values);
  EXPECT_NE(net.parameters()[0].grad().to_vector<double>(), values);
}

TEST(DataParallel, GradientsThatCannotBeComputedThereAreCopied) {
  if (world_size() == 1) GTEST_SKIP() << "a world of one has no buckets";
  nn::Linear twice(3, 3, {.bias = false}), hooked(3, 3, {.bias = false}), own(3, 3, {.bias = false});
  nn::Sequential net{twice, hooked, own};
  net.to(kFloat64);
  net.to(default_device());
  DataParallel model(net);
  Tensor seen, kept;
  hooked.weight.tensor().register_hook([&](const Tensor& gradient) {
    seen = gradient;
    return Tensor{};
  });
  const Tensor x = Tensor::full({2, 3}, rank() + 1.0, options(kFloat64));
  const double average = (world_size() + 1) / 2.0;
  for (int sweep = 0; sweep < 3; ++sweep) {
    net.zero_grad();
    Tape tape;
    const Tensor w = own.weight.tensor();
    const Tensor from_own = custom(
        "double", {w}, [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * 2.0}; },
        [&](const CustomCall& c) -> std::vector<Tensor> {
          kept = c.grads[0] * 2.0;
          return {kept};
        })[0];
    tape.backward(twice(x).sum() + twice(x * 2.0).sum() + hooked(x).sum() + (from_own * (rank() + 1.0)).sum());
    EXPECT_EQ(model.num_copied(), 3U);
    EXPECT_EQ(twice.weight.tensor().grad().to_vector<double>(), std::vector<double>(9, 6.0 * average));
    EXPECT_EQ(hooked.weight.tensor().grad().to_vector<double>(), std::vector<double>(9, 2.0 * average));
    EXPECT_EQ(own.weight.tensor().grad().to_vector<double>(), std::vector<double>(9, 2.0 * average));
    EXPECT_EQ(seen.to_vector<double>(), std::vector<double>(9, 2.0 * (rank() + 1))) << "this rank's own, as it was";
    EXPECT_EQ(kept.to_vector<double>(), std::vector<double>(9, 2.0 * (rank() + 1)));
  }
}

TEST(DataParallel, BucketsAreAnEighthOfSmallNetworks) {
  if (world_size() == 1) GTEST_SKIP() << "a world of one has no buckets";
  nn::Sequential net;
  for (int i = 0; i < 16; ++i) net.append(nn::Linear(512, 512, {.bias = false}));  // a MiB each
  net.to(default_device());
  DataParallel model(net);
  Tape tape;
  tape.backward(model(Tensor::ones({1, 512}, options(kFloat32))).sum());
  ASSERT_EQ(model.buckets().size(), 8U);
  for (const auto& bucket : model.buckets()) EXPECT_EQ(bucket.size(), 2U);
}

// Each rank decides alone, on the same sums.
TEST(DataParallel, AnInfinityOfOneRankIsEveryGradScalers) {
  nn::Linear net(2, 1, {.bias = false});
  net.to(default_device());
  DataParallel model(net);
  optim::SGD sgd(net.parameters(), {.lr = 1.0});
  optim::GradScaler scaler({.init_scale = 4.0, .growth_interval = 1});
  for (int step = 0; step < 3; ++step) {
    const bool overflows = step == 1;
    const std::vector<float> before = net.weight.tensor().to_vector<float>();
    const bool mine = overflows && rank() == world_size() - 1;
    const double value = mine ? std::numeric_limits<double>::infinity() : 1.0;
    Tape tape;
    tape.backward(scaler.scale(model(Tensor::full({1, 2}, value, options(kFloat32))).sum()));
    scaler.step(sgd);
    scaler.update();
    sgd.zero_grad();
    EXPECT_EQ(net.weight.tensor().to_vector<float>() == before, overflows) << step;
    EXPECT_EQ(scaler.get_scale(), step == 0 ? 8.0 : step == 1 ? 4.0 : 8.0);
  }
  expect_same_on_every_rank(net.state_dict());
}

TEST(DataParallel, BadUseThrows) {
  nn::Linear net(2, 2);
  net.to(default_device());
  EXPECT_ERROR(DataParallel(net, {.bucket_bytes = 0}), "bucket_bytes", "0");
  EXPECT_ERROR(DataParallel(net, {.max_ctas = -2}), "max_ctas", "-2");
  if (world_size() > 1) {
    EXPECT_ERROR(DataParallel(net, {.max_ctas = rank()}), "options", " 1' on rank 1", " 0' on rank 0");
    const nn::Linear other(2 + rank(), 2);
    EXPECT_ERROR(DataParallel(other), "'weight float32 (2, 3)' on rank 1", "'weight float32 (2, 2)' on rank 0");
  }
  DataParallel model(net);
  if (world_size() == 1) return;  // in which gradients are unchanged
  EXPECT_ERROR(DataParallel(net), "one DataParallel at a time");
  Tape tape;
  EXPECT_ERROR(tape.backward(model(Tensor::ones({1, 2}, options(kFloat32))).sum(), {.record = true}), ".record");
  EXPECT_FALSE(net.weight.tensor().grad().defined());
}

}  // namespace
}  // namespace adjoint::distributed

// Training steps as CUDA graphs: every weight has the bits that the plain step gives, step by step.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/ema.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

using Tensors = std::vector<Tensor>;
constexpr int kSteps = 20;

/// A small network with everything that changes from step to step: dropout and running statistics.
nn::Sequential make_net() {
  manual_seed(3);
  nn::Sequential net(nn::Conv2d(3, 8, {.kernel_size = 3, .padding = 1}), nn::BatchNorm2d(8), nn::LeakyReLU(),
                     nn::Dropout({.p = 0.25}),
                     nn::ConvTranspose2d(8, 3, {.kernel_size = 4, .stride = 2, .padding = 1}));
  net.to(kCUDA);
  return net;
}

struct Batch {
  Tensor input, target;
};

Batch make_batch(int step, std::int64_t size = 8) {
  GeneratorGuard guard(Generator(1000 + static_cast<std::uint64_t>(step)));
  return {Tensor::randn({4, 3, size, size}, {.device = kCUDA}),
          Tensor::randn({4, 3, 2 * size, 2 * size}, {.device = kCUDA})};
}

/// A training: its steps, and the tensors that are compared after each.
struct Training {
  nn::Sequential net = make_net();
  std::shared_ptr<void> parts;  // optimisers and their associates
  GraphedStep::Function step;
  std::function<Tensors()> state = [] { return Tensors(); };
};

using Maker = std::function<std::shared_ptr<Training>()>;

Tensors weights(Training& training) {
  Tensors all = training.state();
  for (const auto& [name, tensor] : training.net.named_parameters()) all.push_back(tensor.detach().clone());
  for (const auto& [name, tensor] : training.net.named_buffers()) all.push_back(tensor.detach().clone());
  return all;
}

/// The training that `make` makes gives the same bits for batches(i), called plainly and through graphs; both have
/// their own seed. Returns the number of graphs.
std::size_t expect_same_training(const Maker& make, const std::function<Tensors(int)>& batch, int steps = kSteps,
                                 const GraphedStepOptions& options = {.device = kCUDA}) {
  std::vector<Tensors> results[2];
  std::size_t graphs = 0;
  for (const bool graphed : {false, true}) {
    const std::shared_ptr<Training> training = make();
    const GeneratorGuard guard(Generator(77));
    GraphedStep step(training->step, options);
    for (int i = 0; i < steps; ++i) {
      Tensors now = graphed ? step(batch(i)) : training->step(batch(i));
      for (const Tensor& tensor : weights(*training)) now.push_back(tensor);
      results[graphed].push_back(now);
    }
    graphs = step.num_graphs();
    synchronize(kCUDA);
  }
  for (int i = 0; i < steps; ++i) {
    const Tensors &plain = results[0][static_cast<std::size_t>(i)], &graphed = results[1][static_cast<std::size_t>(i)];
    EXPECT_EQ(plain.size(), graphed.size());
    for (std::size_t t = 0; t < std::min(plain.size(), graphed.size()); ++t) {
      expect_same_bits("step " + std::to_string(i) + ", tensor " + std::to_string(t), graphed[t].to(kCPU),
                       plain[t].to(kCPU));
    }
    if (::testing::Test::HasFailure()) break;
  }
  return graphs;
}

Tensors one_size(int step) {
  const Batch batch = make_batch(step);
  return {batch.input, batch.target};
}

/// zero_grad, forward, backward, update, and then `behind`.
template <class Optimizer>
std::shared_ptr<Training> make_training(const std::function<std::shared_ptr<Optimizer>(const Tensors&)>& make,
                                        const std::function<std::function<void()>(Training&, Optimizer&)>& behind = {},
                                        bool clips = false) {
  auto training = std::make_shared<Training>();
  Training* const t = training.get();
  const std::shared_ptr<Optimizer> optimizer = make(t->net.parameters());
  t->parts = optimizer;
  const std::function<void()> last = behind ? behind(*t, *optimizer) : [] {};
  t->step = [t, optimizer, last, clips](const Tensors& in) -> Tensors {
    optimizer->zero_grad();
    Tape tape;
    const Tensor loss = mse_loss(t->net(in[0]), in[1]);
    tape.backward(loss);
    Tensor norm;
    if (clips) norm = optim::clip_grad_norm_(t->net.parameters(), 0.5);
    optimizer->step();
    last();
    return {loss, norm.defined() ? norm : loss.detach()};
  };
  return training;
}

class GraphedStepCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

template <class Optimizer, class Options>
Maker plain(const Options& options) {
  return [options] {
    return make_training<Optimizer>(
        [options](const Tensors& parameters) { return std::make_shared<Optimizer>(parameters, options); });
  };
}

TEST_F(GraphedStepCuda, SgdWithDropoutAndBatchNorm) {
  EXPECT_EQ(expect_same_training(plain<optim::SGD>(optim::SGDOptions{.lr = 0.05}), one_size), 1U);
  EXPECT_EQ(expect_same_training(plain<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9}), one_size), 1U);
}

TEST_F(GraphedStepCuda, EveryOptimizer) {
  for (const optim::Json& c : optim::fixture()["optimisers"]) {
    SCOPED_TRACE(optim::name_of(c));
    const Maker make = [&c] {
      return make_training<optim::Optimizer>([&c](const Tensors& parameters) -> std::shared_ptr<optim::Optimizer> {
        return optim::make_optimizer(c, parameters);
      });
    };
    expect_same_training(make, one_size);
  }
}

TEST_F(GraphedStepCuda, AdamWithClippingAScheduleAndAnAverage) {
  const Maker make = [] {
    return make_training<optim::Adam>(
        [](const Tensors& parameters) {
          return std::make_shared<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-2});
        },
        [](Training& training, optim::Adam& adam) -> std::function<void()> {
          const auto schedule =
              std::make_shared<optim::CosineAnnealingLR>(adam, optim::CosineAnnealingLROptions{.T_max = 15,
                                                                                               .warmup = {.steps = 5}});
          const auto ema = std::make_shared<optim::EMA>(training.net, optim::EMAOptions{.decay = 0.9, .warmup = true});
          training.state = [ema, schedule] {
            Tensors state;
            for (const auto& [name, tensor] : ema->state_dict()) state.push_back(tensor.clone());
            for (const auto& [name, tensor] : schedule->state_dict()) state.push_back(tensor.clone());
            return state;
          };
          return [schedule, ema] {
            schedule->step();
            ema->update();
          };
        },
        true);
  };
  EXPECT_EQ(expect_same_training(make, one_size), 1U);
}

// Two optimisers of one scaled loss in float16, one of them clipped. The first scales overflow, so that updates are
// skipped in replays too, and the scale grows in others.
TEST_F(GraphedStepCuda, AGradScalerWithClippingAndSeveralOptimizers) {
  double least = 0.0;
  std::int64_t updates = 0;
  const Maker make = [&] {
    auto training = std::make_shared<Training>();
    Training* const t = training.get();
    Tensors all = t->net.parameters();
    const Tensors front(all.begin(), all.begin() + 2), back(all.begin() + 2, all.end());
    struct Parts {
      optim::Adam adam;
      optim::SGD sgd;
      optim::GradScaler scaler{{.init_scale = 0x1p40, .backoff_factor = 0x1p-4, .growth_interval = 3}};
    };
    const std::shared_ptr<Parts> parts(
        new Parts{optim::Adam(front, {.lr = 1e-2}), optim::SGD(back, {.lr = 0.05, .momentum = 0.9})});
    t->step = [t, parts](const Tensors& in) -> Tensors {
      parts->adam.zero_grad();
      parts->sgd.zero_grad();
      Tape tape;
      Tensor loss;
      {
        const AutocastGuard guard(kFloat16);
        loss = mse_loss(t->net(in[0]), in[1]);
      }
      tape.backward(parts->scaler.scale(loss));
      const Tensor norm = parts->scaler.step(parts->adam, {.max_norm = 0.5});
      parts->scaler.step(parts->sgd);
      parts->scaler.update();
      return {loss, norm};
    };
    t->state = [parts, &least, &updates] {
      Tensors state;
      for (const NamedTensors& named :
           {parts->adam.state_dict(), parts->sgd.state_dict(), parts->scaler.state_dict()}) {
        for (const auto& [name, tensor] : named) state.push_back(tensor.clone());
      }
      least = parts->scaler.get_scale();
      const NamedTensors adam = parts->adam.state_dict();
      updates = adam.size() < 2 ? 0 : adam[1].second.item<std::int64_t>();
      return state;
    };
    return training;
  };
  EXPECT_EQ(expect_same_training(make, one_size), 1U);
  EXPECT_LT(least, 0x1p36);
  EXPECT_GT(updates, 5);
  EXPECT_LT(updates, kSteps - 2);  // more were left out than ran uncaptured
}

TEST_F(GraphedStepCuda, SeveralShapesKeepSeveralGraphs) {
  const auto sizes = [](int step) {
    const Batch batch = make_batch(step, step % 3 == 2 ? 12 : 8);
    return Tensors{batch.input, batch.target};
  };
  EXPECT_EQ(expect_same_training(plain<optim::Adam>(optim::AdamOptions{.lr = 1e-2}), sizes), 2U);
  EXPECT_EQ(expect_same_training(plain<optim::Adam>(optim::AdamOptions{.lr = 1e-2}), sizes, kSteps,
                                 {.device = kCUDA, .max_graphs = 1}),
            1U);
}

TEST_F(GraphedStepCuda, MixedPrecisionInsideAndAroundTheStep) {
  const Maker make = [] {
    const std::shared_ptr<Training> training = plain<optim::Adam>(optim::AdamOptions{.lr = 1e-2})();
    training->step = [inner = training->step](const Tensors& in) {
      const AutocastGuard guard(kBFloat16);
      return inner(in);
    };
    return training;
  };
  EXPECT_EQ(expect_same_training(make, one_size), 1U);
  const AutocastGuard guard(kBFloat16);
  EXPECT_EQ(expect_same_training(plain<optim::Adam>(optim::AdamOptions{.lr = 1e-2}), one_size, 6), 1U);
}

TEST_F(GraphedStepCuda, FlatGradientsAndHalfPrecision) {
  const Maker make = [] {
    return make_training<optim::Adam>([](const Tensors& parameters) {
      auto adam = std::make_shared<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-2});
      adam->flatten_gradients();
      return adam;
    });
  };
  EXPECT_EQ(expect_same_training(make, one_size), 1U);
  const Maker half = [] {
    auto training = std::make_shared<Training>();
    Training* const t = training.get();
    t->net.to(kBFloat16);
    const auto adam = std::make_shared<optim::Adam>(t->net.parameters(), optim::AdamOptions{.lr = 1e-2});
    t->step = [t, adam](const Tensors& in) -> Tensors {
      adam->zero_grad();
      Tape tape;
      const Tensor loss = mse_loss(t->net(in[0].to(kBFloat16)), in[1].to(kBFloat16));
      tape.backward(loss);
      adam->step();
      return {loss};
    };
    return training;
  };
  EXPECT_EQ(expect_same_training(half, one_size), 1U);
}

// Gradients of three calls, then one update: two steps of graphs.
TEST_F(GraphedStepCuda, GradientsAddUpOverCalls) {
  for (const bool flat : {false, true}) {
    Tensors results[2];
    for (const bool graphed : {false, true}) {
      nn::Sequential net = make_net();
      optim::Adam adam(net.parameters(), {.lr = 1e-2});
      if (flat) adam.flatten_gradients();
      const GeneratorGuard guard(Generator(5));
      const GraphedStep::Function add_gradients = [&](const Tensors& in) -> Tensors {
        Tape tape;
        const Tensor loss = mse_loss(net(in[0]), in[1]);
        tape.backward(loss);
        return {loss};
      };
      const GraphedStep::Function update = [&](const Tensors&) -> Tensors {
        adam.step();
        adam.zero_grad();
        return {};
      };
      GraphedStep graphed_add(add_gradients, {.device = kCUDA}), graphed_update(update, {.device = kCUDA});
      for (int i = 0; i < kSteps; ++i) {
        for (int part = 0; part < 3; ++part) {
          const Tensors in = one_size(3 * i + part);
          results[graphed].push_back((graphed ? graphed_add(in) : add_gradients(in))[0]);
        }
        graphed ? graphed_update() : update({});
        for (const Tensor& parameter : net.parameters()) results[graphed].push_back(parameter.detach().clone());
      }
      if (graphed) {
        EXPECT_LE(graphed_add.num_graphs(), flat ? 1U : 3U);
        EXPECT_LE(graphed_update.num_graphs(), 2U);
        EXPECT_GE(graphed_update.num_graphs(), 1U);
      }
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      expect_same_bits("tensor " + std::to_string(i), results[1][i].to(kCPU), results[0][i].to(kCPU));
    }
  }
}

// Events between replays: plain steps, a rate that is set, state that is loaded, parameters that move.
TEST_F(GraphedStepCuda, GoesOnAfterWhatAProgramDoesBetweenSteps) {
  Tensors results[2];
  for (const bool graphed : {false, true}) {
    nn::Sequential net = make_net();
    optim::Adam adam(net.parameters(), {.lr = 1e-2});
    const GeneratorGuard guard(Generator(5));
    const GraphedStep::Function plain_step = [&](const Tensors& in) -> Tensors {
      adam.zero_grad();
      Tape tape;
      const Tensor loss = mse_loss(net(in[0]), in[1]);
      tape.backward(loss);
      adam.step();
      return {loss};
    };
    GraphedStep step(plain_step, {.device = kCUDA});
    NamedTensors saved;
    for (int i = 0; i < kSteps; ++i) {
      if (i == 5) adam.set_lr(1e-3);
      if (i == 8) {
        for (const auto& [name, tensor] : adam.state_dict()) saved.emplace_back(name, tensor.clone());
      }
      if (i == 12) adam.load_state_dict(saved);
      if (i == 16) net.to(kCPU), net.to(kCUDA);
      const Tensors in = one_size(i);
      results[graphed].push_back((graphed && i != 6 ? step(in) : plain_step(in))[0]);
      for (const Tensor& parameter : net.parameters()) results[graphed].push_back(parameter.detach().clone());
    }
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    expect_same_bits("tensor " + std::to_string(i), results[1][i].to(kCPU), results[0][i].to(kCPU));
  }
}

TEST_F(GraphedStepCuda, RunsOnAnyStreamAndFromPinnedBatches) {
  Tensors results[2];
  for (const bool graphed : {false, true}) {
    const std::shared_ptr<Training> training = plain<optim::SGD>(optim::SGDOptions{.lr = 0.05})();
    const GeneratorGuard guard(Generator(5));
    GraphedStep step(training->step, {.device = kCUDA});
    const Stream a = Stream::create(), b = Stream::create();
    for (int i = 0; i < 8; ++i) {
      const Batch batch = make_batch(i);
      synchronize(kCUDA);
      const StreamGuard stream(i % 2 == 0 ? a : b);
      const Tensors pinned{pin_memory(batch.input.to(kCPU)), pin_memory(batch.target.to(kCPU))};
      results[graphed].push_back((graphed ? step(pinned) : training->step({batch.input, batch.target}))[0].to(kCPU));
      synchronize(kCUDA);
    }
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    expect_same_bits("loss " + std::to_string(i), results[1][i], results[0][i]);
  }
}

TEST_F(GraphedStepCuda, NamesWhatCannotBeCapturedAndGoesOn) {
  const Tensor w = Tensor::ones({4}, {.device = kCUDA});
  int calls = 0;
  std::function<void(const Tensor&)> what;
  GraphedStep step(
      [&](const Tensors& in) -> Tensors {
        const Tensor y = in[0] * w;
        if (++calls > 1 && what) what(y);
        return {y};
      },
      {.device = kCUDA});
  const Tensor x = Tensor::full({4}, 2.0, {.device = kCUDA});
  step({x});
  what = [](const Tensor& y) { y.sum().item<float>(); };
  EXPECT_ERROR(step({x}), "item: a captured step (GraphedStep) must not wait for the device", "float32 () on cuda:0");
  what = [](const Tensor& y) { y.to(kCPU); };
  EXPECT_ERROR(step({x}), "a captured step (GraphedStep) must not wait for the device", "float32 (4,) on cuda:0");
  what = [](const Tensor&) { Tensor::ones({2}).to(kCUDA); };
  EXPECT_ERROR(step({x}), "a captured step (GraphedStep) must");
  what = [](const Tensor&) { synchronize(kCUDA); };
  EXPECT_ERROR(step({x}), "synchronize: a captured step (GraphedStep) must run on one stream");
  what = [](const Tensor&) { const StreamGuard guard(Stream::create()); };
  EXPECT_ERROR(step({x}), "StreamGuard: a captured step (GraphedStep) must run on one stream");
  Tensor kept;
  what = [&](const Tensor& y) { kept = y + y; };
  EXPECT_ERROR(step({x}), "GraphedStep: a tensor that a captured step makes must not outlive it");
  what = {};
  for (int i = 0; i < 3; ++i) expect_values("after errors", step({x})[0].to(kCPU), {2.0, 2.0, 2.0, 2.0});
  EXPECT_EQ(step.num_graphs(), 1U);
}

TEST_F(GraphedStepCuda, MemoryStaysAsItIs) {
  const std::shared_ptr<Training> training = plain<optim::Adam>(optim::AdamOptions{.lr = 1e-3})();
  GraphedStep step(training->step, {.device = kCUDA});
  const Batch batch = make_batch(0);
  for (int i = 0; i < 5; ++i) step({batch.input, batch.target});
  synchronize(kCUDA);
  const std::size_t in_use = memory_stats(kCUDA).in_use, held = memory_stats(kCUDA).held, graphs = step.bytes();
  EXPECT_GT(graphs, 0U);
  for (int i = 0; i < 500; ++i) step({batch.input, batch.target});
  synchronize(kCUDA);
  EXPECT_EQ(memory_stats(kCUDA).in_use, in_use);
  EXPECT_EQ(memory_stats(kCUDA).held, held);
  EXPECT_EQ(step.bytes(), graphs);
  step.reset();
  EXPECT_EQ(step.num_graphs(), 0U);
}

}  // namespace
}  // namespace adjoint::testing

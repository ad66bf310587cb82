// A training uses as much memory at step 20,000 as at step 100, plainly and through GraphedStep; on the CPU at step
// 400.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/ema.h>
#include <adjoint/optim/schedule.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr int kEarly = 100;

void expect_same_memory(Device device, int steps, bool graphed) {
  SCOPED_TRACE(graphed ? "graphed" : "plain");
  manual_seed(3);
  nn::Sequential net(nn::Conv2d(3, 8, {.kernel_size = 3, .padding = 1}), nn::BatchNorm2d(8), nn::LeakyReLU(),
                     nn::Dropout({.p = 0.25}),
                     nn::ConvTranspose2d(8, 3, {.kernel_size = 4, .stride = 2, .padding = 1}));
  net.to(device);
  optim::Adam adam(net.parameters());
  optim::CosineAnnealingLR schedule(adam, {.T_max = steps});
  optim::EMA average(net);
  const auto train = [&](const std::vector<Tensor>& batch) -> std::vector<Tensor> {
    adam.zero_grad();
    Tape tape;
    const Tensor loss = mse_loss(net(batch[0]), batch[1]);
    tape.backward(loss);
    optim::clip_grad_norm_(net.parameters(), 1.0);
    adam.step();
    schedule.step();
    average.update();
    return {loss.detach()};
  };
  GraphedStep step(train, {.device = device});
  MemoryStats early, late;
  for (int i = 1; i <= steps; ++i) {
    const std::vector<Tensor> batch = {Tensor::randn({4, 3, 8, 8}, {.device = device}),
                                       Tensor::randn({4, 3, 16, 16}, {.device = device})};
    graphed ? step(batch) : train(batch);
    if (i != kEarly && i != steps) continue;
    synchronize(device);
    (i == kEarly ? early : late) = memory_stats(device);
    reset_peak_memory_stats(device);
  }
  EXPECT_EQ(late.held, early.held);
  EXPECT_EQ(late.in_use, early.in_use);
  EXPECT_LE(late.peak, early.peak);
  for (std::size_t i = 0; i < kMemoryCategories; ++i)
    EXPECT_EQ(late.categories[i].in_use, early.categories[i].in_use) << to_string(static_cast<MemoryCategory>(i));
}

TEST(TrainingMemory, IsTheSameAtStep100AndAtStep400) {
  for (const bool graphed : {false, true}) expect_same_memory(kCPU, 400, graphed);
}

TEST(TrainingMemoryCuda, IsTheSameAtStep100AndAtStep20000) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const bool graphed : {false, true}) expect_same_memory(kCUDA, 20'000, graphed);
}

}  // namespace
}  // namespace adjoint::testing

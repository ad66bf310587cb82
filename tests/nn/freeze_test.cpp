// freeze: the same bits, filters packed once, writes refused, memory given back.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/clone.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/freeze.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

/// Of every way in which a filter is packed: many channels, few results, strides that become channels.
Sequential network() {
  manual_seed(1);
  Sequential net{Conv2d(3, 64, {.kernel_size = 4, .stride = 2, .padding = 1}),
                 ReLU(),
                 Conv2d(64, 128, {.kernel_size = 3, .padding = 1}),
                 BatchNorm2d(128),
                 ConvTranspose2d(128, 32, {.kernel_size = 4, .stride = 2, .padding = 1}),
                 ReLU(),
                 Conv2d(32, 1, {.kernel_size = 7, .padding = 3})};
  net.eval();
  return net;
}

Tensor input(std::int64_t batch, std::int64_t extent, Device device = kCPU) {
  manual_seed(static_cast<std::uint64_t>(batch * 100 + extent));
  return Tensor::randn({batch, 3, extent, extent}).to(device);
}

std::int64_t in_use(Device device) { return static_cast<std::int64_t>(memory_stats(device).in_use); }

void expect_frozen_calls_are_the_same(Device device, DType dtype) {
  Sequential net = network();
  net.to(dtype);
  net.to(device);
  std::vector<std::pair<Tensor, Tensor>> cases;
  for (const std::int64_t batch : {1, 3}) {
    const Tensor x = input(batch, 16, device).to(dtype);
    cases.emplace_back(x, net(x));
  }
  const Frozen frozen = freeze(net);
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const auto& [x, expected] : cases) expect_same_bits("frozen", net(x), expected);
  }
}

void expect_memory_is_given_back(Device device) {
  Sequential net = network();
  net.to(device);
  const Tensor x = input(2, 16, device);
  net(x);
  const std::int64_t before = in_use(device);
  Frozen frozen = freeze(net);
  EXPECT_EQ(frozen.kept_bytes(), 0U);
  net(x);
  const auto kept = static_cast<std::int64_t>(frozen.kept_bytes());
  // 128 * 64 * 9 elements are the largest filter's, which every kernel packs.
  EXPECT_GE(kept, std::int64_t{128 * 64 * 9 * 4});
  EXPECT_GE(in_use(device) - before, kept);
  net(x);
  EXPECT_EQ(static_cast<std::int64_t>(frozen.kept_bytes()), kept) << "packed again";
  frozen.unfreeze();
  EXPECT_EQ(in_use(device), before);
}

TEST(Freeze, FrozenCallsHaveTheSameBits) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) expect_frozen_calls_are_the_same(kCPU, dtype);
}

TEST(FreezeCuda, FrozenCallsHaveTheSameBits) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) expect_frozen_calls_are_the_same(kCUDA, dtype);
  const PrecisionGuard tf32(Precision::kTF32);
  expect_frozen_calls_are_the_same(kCUDA, kFloat32);
}

// On one thread, because each thread keeps separate memory for convolutions after its first one.
TEST(Freeze, MemoryIsGivenBack) {
  const CpuBackendGuard loops(CpuBackend::kVector);  // Eigen packs nothing
  const int threads = num_threads();
  set_num_threads(1);
  expect_memory_is_given_back(kCPU);
  set_num_threads(threads);
}

TEST(FreezeCuda, MemoryIsGivenBack) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_memory_is_given_back(kCUDA);
}

// A write that bypasses the tensor is not seen: nothing else could show that a filter is not packed in every call.
TEST(Freeze, FiltersArePackedOnce) {
  const CpuBackendGuard loops(CpuBackend::kVector);  // Eigen packs nothing
  Conv2d conv(2, 3, {.kernel_size = 3});
  conv.eval();
  const Tensor x = Tensor::ones({1, 2, 5, 5});
  Tensor weight = conv.weight;
  float* const elements = weight.detach().mutable_data<float>();
  const Tensor before = conv(x);
  Frozen frozen = freeze(conv);
  conv(x);
  elements[0] += 1;
  expect_same_bits("frozen", conv(x), before);
  frozen.unfreeze();
  EXPECT_NE(conv(x).to_vector<float>(), before.to_vector<float>());
}

TEST(FreezeCuda, FiltersArePackedOnceAStream) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  Sequential net = network();
  net.to(kCUDA);
  const Tensor x = input(2, 16, kCUDA), expected = net(x);
  synchronize(kCUDA);
  const Frozen frozen = freeze(net);
  net(x);
  const std::size_t kept = frozen.kept_bytes();
  const Stream stream = Stream::create();
  const StreamGuard guard(stream);
  expect_same_bits("frozen", net(x), expected);
  EXPECT_EQ(frozen.kept_bytes(), 2 * kept);
}

TEST(Freeze, OfManyShapesTheFirstAreKept) {
  Conv2d conv(2, 3, {.kernel_size = 3});
  conv.eval();
  const Frozen frozen = freeze(conv);
  for (std::int64_t extent = 3; extent < 20; ++extent) {
    const Tensor x = Tensor::ones({1, 2, extent, extent});
    expect_same_bits("frozen", conv(x), conv2d(x, conv.weight.clone(), conv.bias));
  }
  const std::size_t kept = frozen.kept_bytes();
  conv(Tensor::ones({1, 2, 30, 30}));
  EXPECT_EQ(frozen.kept_bytes(), kept);
}

// Filters that hold an infinity are packed by other plans.
TEST(Freeze, FiltersWithInfinityKeepTheirBits) {
  Conv2d conv(2, 3, {.kernel_size = 3, .padding = 1});
  conv.eval();
  Tensor weight = conv.weight;
  weight.detach().mutable_data<float>()[4] = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::ones({1, 2, 5, 5}), before = conv(x);
  const Frozen frozen = freeze(conv);
  for (int repeat = 0; repeat < 2; ++repeat) expect_same_bits("frozen", conv(x), before);
}

TEST(Freeze, WritesAreRefusedUntilItEnds) {
  Sequential net = network();
  const Tensor x = input(1, 8);
  Tensor weight = net.parameters()[0];
  {
    const Frozen frozen = freeze(net);
    EXPECT_ERROR(weight.detach().fill_(1.0),
                 "weights must not change while their model is frozen; got shape (64, 3, 4, 4)", "unfreeze it first");
    EXPECT_ERROR(net.load_state_dict(nn::clone(net).state_dict()), "load_state_dict: weights must not change");
    EXPECT_ERROR(net.to(kFloat64),
                 "Module::to: a module must not move while it is frozen; got frozen parameter '0.weight'");
    EXPECT_ERROR(net.to(kCPU), "Module::to: a module must not move while it is frozen");
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    Tape tape;
    tape.backward(net(x).sum());
    EXPECT_ERROR(sgd.step(), "weights must not change while their model is frozen");
  }
  weight.detach().fill_(1.0);
  net.to(kFloat64);
}

TEST(Freeze, ClonesAndAssignedWeightsAreNotFrozen) {
  Conv2d conv(2, 3, {.kernel_size = 3});
  conv.eval();
  const Frozen frozen = freeze(conv);
  const Tensor x = Tensor::ones({1, 2, 5, 5}), before = conv(x);
  Conv2d copy = nn::clone(conv);
  Tensor copied = copy.weight;
  copied.detach().fill_(0.0);
  expect_same_bits("frozen", conv(x), before);
  conv.weight = Tensor::zeros({3, 2, 3, 3}, {.requires_grad = true});
  Tensor assigned = conv.weight;
  expect_same_bits("frozen", conv(x), conv2d(x, assigned, conv.bias));
  assigned.detach().fill_(2.0);
  expect_same_bits("frozen", conv(x), conv2d(x, assigned, conv.bias));
}

TEST(Freeze, WhatTwoHoldsShareStaysFrozenUntilBothEnd) {
  Conv2d conv(2, 3, {.kernel_size = 3});
  conv.eval();
  Frozen first = freeze(conv), second = freeze(conv);
  Tensor weight = conv.weight;
  Frozen moved = std::move(first);
  moved.unfreeze();
  EXPECT_ERROR(weight.detach().fill_(1.0), "weights must not change while their model is frozen");
  second = Frozen();
  weight.detach().fill_(1.0);
}

TEST(Freeze, ThreadsMayComputeAtOnce) {
  Sequential net = network();
  const Tensor x = input(1, 8), expected = net(x);
  const Frozen frozen = freeze(net);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { expect_same_bits("frozen", net(x), expected); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Freeze, ModulesInTrainingModeAreRefusedByName) {
  Sequential net = network();
  net.train();
  EXPECT_ERROR(std::ignore = freeze(net),
               "freeze: the module must be in eval mode; got Sequential in training mode; call eval()");
  net.eval();
  net.named_children()[3].second.train();
  EXPECT_ERROR(std::ignore = freeze(net), "freeze: the module must be in eval mode; got '3' in training mode");
}

}  // namespace
}  // namespace adjoint::nn

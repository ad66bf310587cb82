// The counts of memory_stats(), their names, and the part of them in an error for lack of memory.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

using enum MemoryCategory;

std::int64_t in_use(MemoryCategory category, Device device = kCPU) {
  return static_cast<std::int64_t>(memory_stats(device)[category].in_use);
}

// The growth of a category.
class Growth {
 public:
  explicit Growth(Device device = kCPU) : device_(device), before_(memory_stats(device)) {}
  std::int64_t operator[](MemoryCategory category) const {
    return in_use(category, device_) - static_cast<std::int64_t>(before_[category].in_use);
  }
  std::int64_t all() const {
    return static_cast<std::int64_t>(memory_stats(device_).in_use) - static_cast<std::int64_t>(before_.in_use);
  }

 private:
  Device device_;
  MemoryStats before_;
};

void check_categories(Device device) {
  const Growth growth(device);
  {
    const Tensor x = Tensor::ones({100}, {.device = device});
    EXPECT_EQ(growth[kOther], 400);
    Tensor w = Tensor::ones({100}, {.device = device});
    w.requires_grad_();
    EXPECT_EQ(growth[kOther], 400);
    EXPECT_EQ(growth[kParameters], 400);
    {
      Tape tape;
      const Tensor y = w * x;
      EXPECT_EQ(growth[kSaved], 400) << "x, which the gradient of w reads";
      EXPECT_EQ(growth[kOther], 400) << "y, which none reads";
      const Tensor z = y * y;
      EXPECT_EQ(growth[kSaved], 800) << "x and, twice, y";
      tape.backward(z.sum());
      EXPECT_EQ(growth[kSaved], 0) << "the sweep let go";
      EXPECT_EQ(growth[kOther], 1200) << "x, y and z";
      EXPECT_EQ(growth[kGradients], 400) << "of w";
    }
    EXPECT_EQ(growth.all(), 1200) << "x, w and w's gradient";
    w.set_grad({});
    EXPECT_EQ(growth[kGradients], 0);
    w.requires_grad_(false);
    EXPECT_EQ(growth[kParameters], 0);
    EXPECT_EQ(growth[kOther], 800);
    {
      const MemoryScope optimizer(kOptimizer);
      const Tensor state = Tensor::zeros({50}, {.device = device});
      {
        const MemoryScope inner(kWorkspace);
        const Tensor scratch = Tensor::zeros({10}, {.device = device});
        EXPECT_EQ(growth[kWorkspace], 40);
      }
      EXPECT_EQ(growth[kOptimizer], 200);
      EXPECT_EQ(growth[kWorkspace], 0);
    }
  }
  EXPECT_EQ(growth.all(), 0);
}

TEST(Memory, IsCountedByWhatItServes) { check_categories(kCPU); }

TEST(MemoryCuda, IsCountedByWhatItServes) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  check_categories(kCUDA);
}

TEST(Memory, OfATapeThatEndsWithoutASweepIsSavedNoLonger) {
  const Growth growth;
  const Tensor x = Tensor::ones({100});
  Tensor w = Tensor::ones({100});
  w.requires_grad_();
  {
    const Tape tape;
    const Tensor y = w * x;
    EXPECT_EQ(growth[kSaved], 400);
  }
  EXPECT_EQ(growth[kSaved], 0);
  EXPECT_EQ(growth[kOther], 400);
}

TEST(Memory, WhatSeveralCallsSaveIsCountedOnce) {
  const Growth growth;
  const Tensor x = Tensor::ones({100});
  Tensor w = Tensor::ones({100});
  w.requires_grad_();
  Tape outer;
  const Tensor y = w * x;
  {
    Tape inner;
    Tensor v = Tensor::ones({100});
    v.requires_grad_();
    const Tensor z = v * x;
    EXPECT_EQ(growth[kSaved], 400);
  }
  EXPECT_EQ(growth[kSaved], 400) << "the outer tape still keeps x";
}

TEST(Memory, CheckpointSavesItsInputsAlone) {
  Tensor w = Tensor::ones({1000});
  w.requires_grad_();
  const auto f = [](const std::vector<Tensor>& in) { return ((in[0] * in[0]) * in[0]) * in[0]; };
  const auto saved_by = [&](bool checkpointed) {
    const Growth growth;
    const Tape tape;
    const Tensor y = checkpointed ? checkpoint(f, {w}) : f({w});
    return growth[kSaved];
  };
  EXPECT_EQ(saved_by(false), 8000);
  EXPECT_EQ(saved_by(true), 0) << "w is a parameter";
}

TEST(Memory, PeaksBeginAnew) {
  { const Tensor large = Tensor::zeros({100000}); }
  empty_cache();
  reset_peak_memory_stats(kCPU);
  const MemoryStats before = memory_stats(kCPU);
  EXPECT_EQ(before.peak, before.in_use);
  {
    const Tensor a = Tensor::zeros({1000});
    const Tensor b = Tensor::zeros({500});
  }
  const Tensor c = Tensor::zeros({100});
  const MemoryStats after = memory_stats(kCPU);
  EXPECT_EQ(after.peak - before.in_use, 6000U);
  EXPECT_EQ(after.in_use - before.in_use, 400U);
  EXPECT_EQ(after[kOther].peak - before[kOther].in_use, 6000U);
  EXPECT_EQ(after.held, after.in_use) << "small blocks of the CPU are not kept";
}

TEST(Memory, IsThatOfAllThreads) {
  const Growth growth;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 2000; ++i) {
        Tensor w = Tensor::empty({16});
        w.requires_grad_();
        Tape tape;
        tape.backward((w * w).sum());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(growth.all(), 0);
  for (std::size_t c = 0; c < kMemoryCategories; ++c) EXPECT_EQ(growth[static_cast<MemoryCategory>(c)], 0);
}

std::string out_of_memory(Device device) {
  try {
    Tensor::empty({std::int64_t{1} << 58}, {.device = device});
  } catch (const OutOfMemoryError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

void check_report(Device device) {
  Tensor weight = Tensor::zeros({3, 500000}, {.device = device});
  weight.requires_grad_();
  const Tensor input = Tensor::zeros({2, 1000000}, {.dtype = kFloat16, .device = device});
  const Tensor small = Tensor::zeros({1000}, {.device = device});
  const std::string text = out_of_memory(device);
  EXPECT_NE(text.find("parameters "), std::string::npos) << text;
  const auto at = text.find("largest tensors: ");
  ASSERT_NE(at, std::string::npos) << text;
  const auto first = text.find("(3, 500000) float32 of 6000000 bytes (parameters, made by zeros)", at);
  const auto second = text.find("(2, 1000000) float16 of 4000000 bytes (other, made by zeros)", at);
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_NE(second, std::string::npos) << text;
  EXPECT_LT(first, second);
  EXPECT_EQ(text.find("(1000)"), std::string::npos) << text;
}

TEST(Memory, ThatIsNotThereTellsTheLargestTensors) {
  check_report(kCPU);
  EXPECT_EQ(out_of_memory(kCPU).find("(3, 500000)"), std::string::npos) << "it is gone";
}

TEST(MemoryCuda, ThatIsNotThereTellsTheLargestTensors) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  check_report(kCUDA);
}

TEST(Memory, OfADeviceThatIsNotIsAnError) {
  const Device none(DeviceType::kCUDA, 127);
  EXPECT_ERROR(memory_stats(none), "memory_stats: the device must exist; got cuda:127, with");
  EXPECT_ERROR(reset_peak_memory_stats(none), "reset_peak_memory_stats: the device must exist; got cuda:127");
  EXPECT_ERROR(MemoryScope(static_cast<MemoryCategory>(9)), "MemoryScope: a value of MemoryCategory must be");
}

TEST(MemoryCuda, CachesAreGivenBack) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  empty_cache();
  const std::size_t before = memory_stats(kCUDA).held;
  { const Tensor large = Tensor::zeros({64, 1024, 1024}, {.device = kCUDA}); }
  synchronize(kCUDA);
  EXPECT_GE(memory_stats(kCUDA).held, before + (std::size_t{256} << 20)) << "kept for the next tensor";
  empty_cache();
  EXPECT_LE(memory_stats(kCUDA).held, before);
}

TEST(Pinned, HoldsWhatATensorHolds) {
  Tensor x = empty_pinned({3, 5}, kInt64);
  EXPECT_EQ(x.shape(), (Shape{3, 5}));
  EXPECT_EQ(x.dtype(), kInt64);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(is_pinned(x), cuda_is_available());
  x.fill_(7);
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>(15, 7));
  EXPECT_EQ(empty_pinned({0, 4}).numel(), 0);

  const Tensor columns = Tensor::arange(0.0, 6).reshape({2, 3}).permute({1, 0});
  const Tensor pinned = pin_memory(columns);
  EXPECT_EQ(pinned.to_vector<float>(), columns.to_vector<float>());
  EXPECT_EQ(is_pinned(pinned), cuda_is_available());
  EXPECT_FALSE(is_pinned(columns));
}

TEST(Pinned, CopiesAsCopiesDoWhereThereIsNoGpu) {
  const Tensor x = Tensor::arange(0.0, 10);
  Tensor y = Tensor::zeros({10}, {.dtype = kInt32});
  copy_async(x, y);
  EXPECT_EQ(y.to_vector<int>(), x.to_vector<int>());
  EXPECT_EQ(to_async(x, kCPU).raw_data(), x.raw_data());
  EXPECT_ERROR(copy_async(Tensor::zeros({3}), y), "copy_async: shapes must broadcast");
  EXPECT_ERROR(copy_async({}, y), "copy_async: source must be defined");
  EXPECT_ERROR(empty_pinned({std::int64_t{1} << 61}), "empty_pinned: the number of bytes must fit");
  EXPECT_ERROR(empty_pinned({-1}), "empty_pinned: ");
}

TEST(PinnedCuda, CopiesInTheOrderOfTheStream) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const Stream copies = Stream::create();
  for (int round = 0; round < 20; ++round) {
    Tensor batch = empty_pinned({1 << 20});
    batch.fill_(round);
    Tensor back = empty_pinned({1 << 20});
    {
      const StreamGuard guard(copies);
      const Tensor there = to_async(batch, kCUDA);
      batch = {};  // its memory is not handed out before the copy is done
      Tensor other = empty_pinned({1 << 20});
      other.fill_(-1.0);
      copy_async(there + 1.0, back);
      copies.synchronize();
    }
    ASSERT_EQ(back.to_vector<float>(), std::vector<float>(1 << 20, static_cast<float>(round + 1)));
  }
  EXPECT_GT(memory_stats(kCPU).pinned, 0U);
  empty_cache();
  EXPECT_EQ(memory_stats(kCPU).pinned, 0U) << "no pinned tensor is left";
}

}  // namespace
}  // namespace adjoint

// Tensors on a CUDA device: copies, fills and random numbers equal the CPU's; memory runs out gracefully; streams.

#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr DType kAllDTypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};
constexpr DType kFloatingDTypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64};

class CoreCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

// ---- Copies.

TEST_F(CoreCuda, EveryDTypeSurvivesTheRoundTrip) {
  for (const DType dtype : kAllDTypes) {
    const Tensor cpu = Tensor::from_vector(integers(1001, 100, 1), {7, 143}).to(dtype);
    const Tensor cuda = cpu.to(kCUDA);
    EXPECT_EQ(cuda.device(), kCUDA);
    expect_same_bits(to_string(dtype), cuda.to(kCPU), cpu);
    expect_same_bits("transposed " + to_string(dtype), cuda.transpose(0, 1).to(kCPU), cpu.transpose(0, 1).contiguous());
  }
}

TEST_F(CoreCuda, ConversionsEqualTheCpus) {
  for (const DType from : kAllDTypes) {
    const Tensor cpu = Tensor::from_vector(integers(515, 100, 1), {515}).to(kUInt8).to(from);
    for (const DType to : kAllDTypes) {
      expect_same_bits(to_string(from) + " to " + to_string(to), cpu.to(kCUDA).to(to).to(kCPU), cpu.to(to));
    }
  }
}

TEST_F(CoreCuda, EveryFloat16WidensAndEveryFloatRoundsLikeTheCpus) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    if (!std::isnan(float{half})) values.push_back(half);
  }
  // Neighbours of the boundaries between float16s and bfloat16s: every tie, and both sides of it.
  for (std::uint32_t high = 0; high < 0x7f80; ++high) {
    for (const std::uint32_t low : {0x0000U, 0x0fffU, 0x1000U, 0x1001U, 0x2fffU, 0x3000U, 0x7fffU, 0x8000U, 0x8001U}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
      values.push_back(-values.back());
    }
  }
  const Tensor cpu = Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())});
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor rounded = cpu.to(dtype);
    expect_same_bits("round " + to_string(dtype), cpu.to(kCUDA).to(dtype).to(kCPU), rounded);
    expect_same_bits("widen " + to_string(dtype), rounded.to(kCUDA).to(kFloat32).to(kCPU), rounded.to(kFloat32));
  }
}

TEST_F(CoreCuda, StridedCopiesEqualTheCpus) {
  const Shape shape{3, 1, 5, 2, 4};
  const std::vector<double> values = integers(shape.numel(), 100, 1);
  for (const DType dtype : {kUInt8, kFloat16, kFloat32, kFloat64}) {
    const Tensor cpu = Tensor::from_vector(values, shape).to(kUInt8).to(dtype), cuda = cpu.to(kCUDA);
    for (const Dims& axes : {Dims{4, 3, 2, 1, 0}, Dims{0, 2, 1, 4, 3}, Dims{2, 0, 4, 1, 3}}) {
      expect_same_bits("permuted", cuda.permute(axes).contiguous().to(kCPU), cpu.permute(axes).contiguous());
    }
    expect_same_bits("narrowed", cuda.narrow(2, 1, 3).clone().to(kCPU), cpu.narrow(2, 1, 3).clone());
    expect_same_bits("expanded", cuda.expand({3, 6, 5, 2, 4}).clone().to(kCPU), cpu.expand({3, 6, 5, 2, 4}).clone());
    Tensor into_cpu = Tensor::zeros({4, 2, 5, 1, 3}, {.dtype = dtype}), into_cuda = into_cpu.to(kCUDA);
    Tensor view_cpu = into_cpu.permute({4, 3, 2, 1, 0}), view_cuda = into_cuda.permute({4, 3, 2, 1, 0});
    view_cpu.copy_(cpu);
    view_cuda.copy_(cuda);
    expect_same_bits("written through a view", into_cuda.to(kCPU), into_cpu);
  }
}

// Kernels count in 32 bits.
TEST_F(CoreCuda, StridedCopiesHaveMoreThan32BitsOfElements) {
  constexpr std::int64_t kRows = 3, kColumns = (std::int64_t{1} << 30) + 5;
  try {
    const Tensor pairs = Tensor::zeros({kRows, kColumns, 2}, {.dtype = kUInt8, .device = kCUDA});
    const Tensor firsts = pairs.select(2, 0);
    pairs.select(2, 1).fill_(9.0);
    for (const std::int64_t row : {0, 1, 2}) {
      for (const std::int64_t column : {std::int64_t{0}, kColumns / 2, kColumns - 1}) {
        firsts.select(0, row).select(0, column).fill_(static_cast<double>(1 + row));
      }
    }
    const Tensor copy = firsts.clone();
    ASSERT_TRUE(copy.is_contiguous());
    for (const std::int64_t row : {0, 1, 2}) {
      for (const std::int64_t column : {std::int64_t{0}, kColumns / 2, kColumns - 1}) {
        EXPECT_EQ(copy.select(0, row).select(0, column).item<std::int64_t>(), 1 + row);
        EXPECT_EQ(copy.select(0, row).select(0, column == 0 ? 1 : column - 1).item<std::int64_t>(), 0);
      }
    }
  } catch (const OutOfMemoryError&) {
    GTEST_SKIP() << "needs 10 GB of the GPU's memory";
  }
}

// Axes that change places: whole tiles and parts, of extents that 16 bytes divide and others.
TEST_F(CoreCuda, TransposedCopiesEqualTheCpus) {
  for (const Shape& shape : {Shape{3, 144, 208}, Shape{2, 127, 131}, Shape{2, 64, 9}, Shape{1, 272, 64}}) {
    const std::vector<double> values = integers(shape.numel(), 100, 1);
    for (const DType dtype : {kBool, kUInt8, kBFloat16, kFloat32, kInt64}) {
      const Tensor cpu = Tensor::from_vector(values, shape).to(kUInt8).to(dtype), cuda = cpu.to(kCUDA);
      const std::string what = to_string(dtype) + " " + std::to_string(shape[1]);
      for (const Dims& axes : {Dims{0, 2, 1}, Dims{2, 0, 1}, Dims{2, 1, 0}, Dims{1, 2, 0}}) {
        expect_same_bits("permuted " + what, cuda.permute(axes).contiguous().to(kCPU), cpu.permute(axes).contiguous());
      }
      expect_same_bits("from a part " + what, cuda.narrow(2, 1, 8).transpose(1, 2).contiguous().to(kCPU),
                       cpu.narrow(2, 1, 8).transpose(1, 2).contiguous());
      Tensor into_cpu = Tensor::zeros({shape[0], shape[2], shape[1]}, {.dtype = dtype}), into_cuda = into_cpu.to(kCUDA);
      Tensor view_cpu = into_cpu.transpose(1, 2), view_cuda = into_cuda.transpose(1, 2);
      view_cpu.copy_(cpu);
      view_cuda.copy_(cuda);
      expect_same_bits("through a view " + what, into_cuda.to(kCPU), into_cpu);
    }
  }
}

// Rows in 16-byte pieces, forwards, backwards and of one element, and rows that no 16 bytes divide.
TEST_F(CoreCuda, RowsOfStridedOperandsEqualTheCpus) {
  for (const std::int64_t width : {64, 61, 8}) {
    const Shape shape{5, 6, width};
    const std::vector<double> values = integers(shape.numel(), 100, 1);
    for (const DType dtype : {kUInt8, kBFloat16, kFloat32, kFloat64}) {
      const Tensor cpu = Tensor::from_vector(values, shape).to(kUInt8).to(dtype), cuda = cpu.to(kCUDA);
      const std::string what = to_string(dtype) + " " + std::to_string(width);
      for (const std::int64_t start : {0, 1, 4}) {
        expect_same_bits("narrowed " + what, cuda.narrow(2, start, 4).contiguous().to(kCPU),
                         cpu.narrow(2, start, 4).contiguous());
      }
      expect_same_bits("converted " + what, cuda.narrow(1, 1, 4).to(kInt32).to(kCPU), cpu.narrow(1, 1, 4).to(kInt32));
      expect_same_bits("expanded " + what, cuda.narrow(2, 3, 1).expand(shape).contiguous().to(kCPU),
                       cpu.narrow(2, 3, 1).expand(shape).contiguous());
      const auto backwards = [](const Tensor& x) {
        Strides strides = x.strides();
        strides[2] = -strides[2];
        return x.view_as(x.shape(), strides, x.storage_offset() + x.size(2) - 1).clone();
      };
      expect_same_bits("backwards " + what, backwards(cuda).to(kCPU), backwards(cpu));
    }
  }
}

TEST_F(CoreCuda, UnalignedRunsMoveWhole) {
  const Tensor cpu = Tensor::arange(0.0, 4099), cuda = cpu.to(kCUDA);
  for (std::int64_t start = 0; start < 9; ++start) {
    expect_same_bits("run", cuda.narrow(0, start, 4090).clone().to(kCPU), cpu.narrow(0, start, 4090).clone());
  }
}

// ---- Fills, sequences, random numbers.

TEST_F(CoreCuda, FillsAndSequencesEqualTheCpus) {
  for (const DType dtype : kAllDTypes) {
    const double value = is_floating_point(dtype) ? 3.3 : 1.0, step = is_floating_point(dtype) ? 0.7 : 3.0;
    expect_same_bits(to_string(dtype), Tensor::full({1003}, value, {dtype, kCUDA}).to(kCPU),
                     Tensor::full({1003}, value, {dtype}));
    if (dtype == kBool) continue;
    expect_same_bits(to_string(dtype), Tensor::arange(0, 100, step, {dtype, kCUDA}).to(kCPU),
                     Tensor::arange(0, 100, step, {dtype}));
  }
  Tensor strided = Tensor::zeros({4, 6}, {.device = kCUDA}), expected = Tensor::zeros({4, 6});
  Tensor column = strided.narrow(1, 2, 3), expected_column = expected.narrow(1, 2, 3);
  column.fill_(7);
  expected_column.fill_(7);
  expect_same_bits("columns", strided.to(kCPU), expected);
}

TEST_F(CoreCuda, UniformsHaveTheCpusBits) {
  for (const DType dtype : kFloatingDTypes) {
    for (const std::int64_t count : {1, 2, 3, 100001}) {
      manual_seed(11);
      const Tensor cpu = Tensor::rand({count}, {.dtype = dtype});
      manual_seed(11);
      const Tensor cuda = Tensor::rand({count}, {.dtype = dtype, .device = kCUDA});
      expect_same_bits(to_string(dtype), cuda.to(kCPU), cpu);
    }
  }
  Tensor cpu = Tensor::empty({999}), cuda = Tensor::empty({999}, {.device = kCUDA});
  manual_seed(5);
  cpu.uniform_(-0.3, 1.7);
  manual_seed(5);
  cuda.uniform_(-0.3, 1.7);
  expect_same_bits("uniform_", cuda.to(kCPU), cpu);
}

TEST_F(CoreCuda, UniformsOfCoarseRangesHaveTheCpusBits) {
  for (const DType dtype : kFloatingDTypes) {
    for (const auto& [low, high] : {std::pair{50.0, 51.0}, std::pair{-1.0, 0.0}, std::pair{50.1, 50.2}}) {
      Tensor cpu = Tensor::empty({100001}, {.dtype = dtype}), cuda = Tensor::empty({100001}, {dtype, kCUDA});
      Generator first(6), second(6);
      fill_uniform(cpu, low, high, first);
      fill_uniform(cuda, low, high, second);
      expect_same_bits(to_string(dtype), cuda.to(kCPU), cpu);
    }
  }
}

TEST_F(CoreCuda, NormalsLieWithinFourUlpOfTheCpus) {
  for (const DType dtype : kFloatingDTypes) {
    manual_seed(12);
    const std::vector<double> cpu = Tensor::randn({100001}, {.dtype = dtype}).to_vector<double>();
    manual_seed(12);
    const std::vector<double> cuda = Tensor::randn({100001}, {.dtype = dtype, .device = kCUDA}).to_vector<double>();
    const int bits = dtype == kFloat64 ? 53 : dtype == kFloat32 ? 24 : dtype == kFloat16 ? 11 : 8;
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      const double ulp = std::ldexp(1.0, std::ilogb(cpu[i]) + 1 - bits);
      // float16's subnormals are 2^-24 apart.
      ASSERT_LE(std::abs(cuda[i] - cpu[i]), 4 * std::max(ulp, dtype == kFloat16 ? 0x1p-24 : 0.0))
          << to_string(dtype) << " " << i;
    }
  }
}

// ---- Memory.

TEST_F(CoreCuda, OutOfMemorySaysHowMuchAndTheProgramGoesOn) {
  const Tensor kept = Tensor::ones({1000}, {.device = kCUDA});
  try {
    Tensor::empty({std::int64_t{1} << 50}, {.dtype = kUInt8, .device = kCUDA});
    FAIL() << "a petabyte was allocated";
  } catch (const OutOfMemoryError& error) {
    const std::string message = error.what();
    for (const char* part : {"out of memory on cuda:0", "asked for 1125899906842624 bytes", "holding", "free"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
  expect_values("kept", kept, std::vector<double>(1000, 1.0));
  expect_values("new", Tensor::full({3}, 2.0, {.device = kCUDA}), {2, 2, 2});
}

TEST_F(CoreCuda, MemoryIsReused) {
  // More than any device has, a piece at a time.
  for (int i = 0; i < 2000; ++i) Tensor::empty({std::int64_t{1} << 28}, {.device = kCUDA});
}

TEST_F(CoreCuda, MoreElementsThan32BitsCount) {
  const std::int64_t rows = 70001, columns = 65537;  // 4.6e9
  Tensor large = Tensor::zeros({rows, columns}, {.dtype = kUInt8, .device = kCUDA});
  Tensor corner = large.narrow(0, rows - 2, 2).narrow(1, columns - 2, 2);
  corner.copy_(Tensor::from_vector<double>({1, 2, 3, 4}, {2, 2}, {kUInt8, kCUDA}));
  const Tensor turned = large.transpose(0, 1).contiguous();
  expect_values("corner", turned.narrow(0, columns - 2, 2).narrow(1, rows - 2, 2), {1, 3, 2, 4});
  expect_values("before it", turned.narrow(0, columns - 3, 1).narrow(1, rows - 2, 2), {0, 0});
}

// ---- Streams and devices.

TEST_F(CoreCuda, WorkFollowsTheCurrentStream) {
  const Stream outside = Stream::current();
  const Stream stream = Stream::create();
  EXPECT_NE(stream.handle(), outside.handle());
  Tensor made;
  {
    const StreamGuard guard(stream);
    EXPECT_EQ(Stream::current().handle(), stream.handle());
    {
      const Stream inner = Stream::create();
      const StreamGuard nested(inner);
      EXPECT_EQ(Stream::current().handle(), inner.handle());
    }
    EXPECT_EQ(Stream::current().handle(), stream.handle());
    made = Tensor::full({1 << 24}, 3.0, {.device = kCUDA});
  }
  EXPECT_EQ(Stream::current().handle(), outside.handle());
  outside.wait(stream);
  const Tensor copy = made.clone();
  expect_values("last", copy.narrow(0, (1 << 24) - 2, 2), {3, 3});
  stream.wait(outside);  // made's memory goes back in its own stream's order
  stream.synchronize();
}

TEST_F(CoreCuda, EachThreadHasItsOwnCurrentStream) {
  const Stream stream = Stream::create();
  const StreamGuard guard(stream);
  CUstream_st* other = stream.handle();
  std::thread([&] { other = Stream::current().handle(); }).join();
  EXPECT_EQ(other, nullptr);
}

TEST_F(CoreCuda, ThreadsWorkSideBySide) {
  std::vector<std::thread> threads;
  std::vector<int> right(8, 0);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, &right] {
      const Stream stream = Stream::create();
      const StreamGuard guard(stream);
      bool good = true;
      for (int i = 0; i < 50; ++i) {
        const Tensor values = Tensor::full({10000 + i}, static_cast<double>(t), {.device = kCUDA}).clone();
        good &=
            values.to_vector<float>() == std::vector<float>(static_cast<std::size_t>(10000 + i), static_cast<float>(t));
      }
      right[static_cast<std::size_t>(t)] = good ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(8, 1));
}

TEST_F(CoreCuda, TensorsMoveBetweenDevices) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "one CUDA device only";
  const Device second(DeviceType::kCUDA, 1);
  const Tensor cpu = Tensor::arange(0.0, 100000);
  const Tensor moved = cpu.to(kCUDA).to(second);
  EXPECT_EQ(moved.device(), second);
  expect_same_bits("there", moved.to(kCPU), cpu);
  expect_same_bits("and back", moved.to(kCUDA).to(kCPU), cpu);
}

TEST(StreamBadInput, NamesTheDevice) {
  EXPECT_ERROR(Stream::create(kCPU), "Stream::create", "cpu");
  EXPECT_ERROR(Stream::current(Device(DeviceType::kCUDA, 100)), "Stream::current", "cuda:100");
  EXPECT_ERROR(synchronize(Device(DeviceType::kCUDA, 100)), "synchronize", "cuda:100");
  EXPECT_NO_THROW(synchronize(kCPU));
}

}  // namespace
}  // namespace adjoint::testing

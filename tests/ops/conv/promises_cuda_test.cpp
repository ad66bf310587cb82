// The trio's promises on a GPU, for every kernel: the same bits in every run, on any grid, at any address and beside
// other streams; results of more elements than 31 bits count.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/cuda/multiprocessors.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_layers.h>
#include <adjoint/tests/support/conv_machine.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace adjoint::testing {
namespace {

struct Call {
  cuda::ConvProblem problem;
  ConvOperands operands;
};

Call real_call(cuda::ConvRole role, const ConvCase& c, const ConvMode& mode, const cuda::Machine& machine = {}) {
  const ConvGeometry g = geometry(c);
  const ConvOperands operands = real_operands(role, g, mode.dtype, 2);
  return {conv_problem(role, g, mode, operands, machine), operands};
}

/// A fresh result of the kernel that the library chooses.
Tensor result_of(const Call& call) { return run_kernel(cuda::best_conv_kernel(call.problem), call.problem); }

class ConvPromisesCuda : public ::testing::TestWithParam<ConvMode> {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
  /// check(call) for every layer and role.
  template <class Check>
  void for_each_call(Check check) {
    for (const ConvCase& c : conv_layers()) {
      SCOPED_TRACE(c);
      for (const cuda::ConvRole role : kConvRoles) {
        SCOPED_TRACE(role_name(role));
        check(real_call(role, c, GetParam()));
      }
    }
  }
};

TEST_P(ConvPromisesCuda, AThousandRunsGiveTheSameBits) {
  for_each_call([](const Call& call) {
    const Tensor expected = result_of(call);
    Tensor different = Tensor::zeros({}, {.device = kCUDA});
    for (int run = 0; run < 1000; ++run) different.add_((result_of(call) != expected).to(kFloat32).sum());
    EXPECT_EQ(different.item<float>(), 0) << "elements in all runs";
  });
}

TEST_P(ConvPromisesCuda, TheGridDoesNotMatter) {
  for_each_call([](const Call& call) {
    const Tensor expected = result_of(call);
    for (const int multiprocessors : {1, 7, 50, 107}) {
      const cuda::LimitMultiprocessors limit(multiprocessors);
      expect_same_bits(std::to_string(multiprocessors) + " multiprocessors", result_of(call), expected);
    }
  });
}

TEST_P(ConvPromisesCuda, AddressesDoNotMatter) {
  for_each_call([](const Call& call) {
    const Tensor expected = result_of(call);
    for (std::int64_t offset = 1; offset < 16; ++offset) {
      Call moved = call;
      moved.operands = {displaced(call.operands.first, offset), displaced(call.operands.second, 3 * offset % 16),
                        displaced(call.operands.bias, offset)};
      moved.problem.first = moved.operands.first.raw_data();
      moved.problem.second = moved.operands.second.raw_data();
      if (call.problem.bias != nullptr) moved.problem.bias = moved.operands.bias.raw_data();
      Tensor out = displaced(expected, 5 * offset % 16);
      out.fill_(7.0);
      moved.problem.out = out.raw_mutable_data();
      cuda::best_conv_kernel(moved.problem).run(moved.problem);
      expect_same_bits("offset " + std::to_string(offset), out, expected);
    }
  });
}

TEST_P(ConvPromisesCuda, EightStreamsAtOnce) {
  std::vector<Call> calls;
  std::vector<Tensor> expected;
  for_each_call([&](const Call& call) {
    calls.push_back(call);
    expected.push_back(result_of(call));
  });
  synchronize(kCUDA);
  const auto work = [&](std::size_t first) {
    const Stream stream = Stream::create();
    const StreamGuard guard(stream);
    for (int round = 0; round < 10; ++round) {
      std::vector<Tensor> results;
      for (std::size_t i = 0; i < calls.size(); ++i) results.push_back(result_of(calls[(first + i) % calls.size()]));
      for (std::size_t i = 0; i < calls.size(); ++i) {
        expect_same_bits("call " + std::to_string(i), results[i], expected[(first + i) % calls.size()]);
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i) threads.emplace_back(work, 7 * i);
  for (std::thread& thread : threads) thread.join();
}

// For a layer whose ring of stages turns quickly, beside copies that keep the multiprocessors' shared memory busy: data
// that are read late must still be intact (correlation/cuda/rows/walk.cuh's release_stage(), without which one run in a
// hundred differs).
TEST_P(ConvPromisesCuda, CopiesBesideItDoNotMatter) {
  if (compute_capability() < 90) GTEST_SKIP() << "the copy engine that fills stages came with sm_90";
  constexpr int kRuns = 2000;
  const Call deep = real_call(
      cuda::ConvRole::kFeature,
      {.name = "deep", .batch = 3, .in_channels = 1, .out_channels = 2526, .input = {52, 22}, .kernel = {2, 3}},
      GetParam(), kOneMultiprocessor);  // few columns, whose products are fastest
  const Call copied = real_call(cuda::ConvRole::kFeature,
                                {.name = "copied",
                                 .batch = 3,
                                 .in_channels = 1,
                                 .out_channels = 421,
                                 .input = {52, 22},
                                 .kernel = {4, 5},
                                 .stride = {3, 2}},
                                GetParam(), kOneMultiprocessor);
  const auto work = [&](const Call& call, const cuda::ConvKernel& kernel) {
    const Stream stream = Stream::create();
    const StreamGuard guard(stream);
    const Tensor expected = run_kernel(kernel, call.problem);
    Tensor different = Tensor::zeros({}, {.device = kCUDA});
    for (int run = 0; run < kRuns; ++run) {
      different.add_((run_kernel(kernel, call.problem) != expected).to(kFloat32).sum());
    }
    EXPECT_EQ(different.item<float>(), 0) << kernel.name << ": elements in all runs";
  };
  const cuda::ConvKernel& of_deep = *cuda::find_conv_kernel(cuda::ConvRole::kFeature, "correlation_conv");
  const cuda::ConvKernel& of_copied = *cuda::find_conv_kernel(cuda::ConvRole::kFeature, "unshuffled_conv");
  ASSERT_TRUE(of_deep.takes(deep.problem));
  ASSERT_TRUE(of_copied.takes(copied.problem));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(work, deep, std::cref(of_deep));
    threads.emplace_back(work, copied, std::cref(of_copied));
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Modes, ConvPromisesCuda, ::testing::ValuesIn(kConvModes),
                         [](const auto& mode) { return std::string(mode.param.name); });

// As those do in which PyTorch runs gradients.
TEST(TensorMapCuda, IsMadeInAThreadThatHasCalledNothing) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  if (compute_capability() < 90) GTEST_SKIP() << "the copy engine that takes tensor maps came with sm_90";
  const Tensor values = Tensor::full({64}, 1.0, {.device = kCUDA});
  const cuda::TensorMapLayout layout{.data = values.raw_data(),
                                     .dtype = kFloat32,
                                     .extents = {16, 4, 1, 1, 1},
                                     .strides = {1, 16, 64, 64, 64},
                                     .box = {16, 4, 1, 1, 1}};
  std::string refusal;
  std::thread([&] {
    try {
      cuda::encode_tensor_map(layout);
    } catch (const Error& error) {
      refusal = error.what();
    }
  }).join();
  EXPECT_EQ(refusal, "");
}

// ---- Size.

constexpr std::int64_t kEnd = 16;  // positions at either end of a long row that are not zero

/// (1, channels, length) on the GPU: zeros between the two halves of `ends`, (channels, 2 * kEnd).
Tensor long_rows(const std::vector<double>& ends, std::int64_t channels, std::int64_t length, DType dtype) {
  Tensor result = Tensor::zeros({1, channels, length}, {.dtype = dtype, .device = kCUDA});
  const Tensor values = Tensor::from_vector<double>(ends, {1, channels, 2 * kEnd}, {.dtype = dtype, .device = kCUDA});
  result.narrow(2, 0, kEnd).copy_(values.narrow(2, 0, kEnd));
  result.narrow(2, length - kEnd, kEnd).copy_(values.narrow(2, kEnd, kEnd));
  return result;
}

Tensor ends_of(const Tensor& rows, std::int64_t count) {
  const std::int64_t length = rows.size(2);
  Tensor ends = Tensor::empty({1, rows.size(1), 2 * count}, {.dtype = rows.dtype()});
  ends.narrow(2, 0, count).copy_(rows.narrow(2, 0, count).contiguous().to(kCPU));
  ends.narrow(2, count, count).copy_(rows.narrow(2, length - count, count).contiguous().to(kCPU));
  return ends;
}

// Rows so long that feature and image have more than 2^31 elements, zero except at their ends; the expected values are
// those of short rows with the same ends.
void expect_long_rows_are_exact(const ConvMode& mode) {
  constexpr std::int64_t kChannels = 16;
  ConvGeometry small{.rank = 1, .image_channels = kChannels, .feature_channels = kChannels, .kernel = {1, 3}};
  small.feature = {1, 2 * kEnd};
  small.image = {1, 2 * kEnd};
  small.padding = {0, 1};
  ConvGeometry large = small;
  large.image.w = large.feature.w = (std::int64_t{1} << 27) + 5;
  ConvProblem p = integer_problem(small);
  // The middle of the short rows is the long rows' zeros.
  for (std::vector<double>* rows : {&p.image, &p.feature}) {
    for (std::size_t i = 0; i < rows->size(); ++i) {
      const auto position = static_cast<std::int64_t>(i) % (2 * kEnd);
      if (position >= kEnd - 3 && position < kEnd + 3) (*rows)[i] = 0;
    }
  }
  const Tensor filter = p.filter_tensor({.dtype = mode.dtype, .device = kCUDA});
  const Tensor feature = long_rows(p.feature, kChannels, large.feature.w, mode.dtype);
  {
    const Tensor image = long_rows(p.image, kChannels, large.image.w, mode.dtype);
    expect_values("conv", ends_of(conv(image, filter, {}, large), kEnd), oracle::conv(small, p.image, p.filter, {}));
    expect_values("conv_weight", conv_weight(image, feature, large), oracle::conv_weight(small, p.image, p.feature));
  }
  expect_values("conv_transpose", ends_of(conv_transpose(feature, filter, {}, large), kEnd),
                oracle::conv_transpose(small, p.feature, p.filter, {}));
}

TEST(ConvLongRowsCuda, MoreThan31BitsCountAreExact) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvMode& mode : kConvModes) {
    SCOPED_TRACE(mode.name);
    const PrecisionGuard precision(mode.precision);
    expect_long_rows_are_exact(mode);
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif

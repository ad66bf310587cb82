// The choice of a convolution's CUDA kernel, and problems of more elements than 32 bits count.

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_choices.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/ops/conv/choose/cuda/dispatch.h>

namespace adjoint::testing {
namespace {

cuda::ConvProblem problem(cuda::ConvRole role) {
  return {.role = role, .geometry = {}, .dtype = kFloat64, .precision = Precision::kFull, .device = 0};
}

TEST(ConvDispatch, PlainKernelsComeLastAndTakeEverything) {
  for (const cuda::ConvRole role : kConvRoles) {
    const cuda::ConvKernel& last = *cuda::conv_kernels(role).back();
    EXPECT_STREQ(last.name, "plain");
    EXPECT_TRUE(last.takes(problem(role)));
  }
}

// Benchmarks and tests run each once.
TEST(ConvDispatch, EveryKernelIsNamedOnce) {
  for (const cuda::ConvRole role : kConvRoles) {
    std::set<std::string> names;
    for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) EXPECT_TRUE(names.insert(kernel->name).second);
  }
}

// The input gradients of discriminators' last layers: 1024 results of three products a position.
TEST(ConvDispatch, ShortSumsRunWithoutTensorCores) {
  const cuda::PretendGpu pretend(kHopper);
  const auto conv_transpose = [](std::int64_t batch) {
    cuda::ConvProblem p = problem(cuda::ConvRole::kImage);
    p.geometry = simplified(geometry({.rank = 1,
                                      .batch = batch,
                                      .in_channels = 1,
                                      .out_channels = 1024,
                                      .input = {1, 64},
                                      .kernel = {1, 3},
                                      .padding = {0, 1}}),
                            false);
    p.dtype = kFloat32;
    p.precision = Precision::kTF32;
    return std::string(cuda::best_conv_kernel(p).name);
  };
  for (const std::int64_t batch : {1, 16}) EXPECT_EQ(conv_transpose(batch), "short_sums_conv_transpose") << batch;
  EXPECT_NE(conv_transpose(256), "plain");
}

// Of no samples the filter's gradient is zeros, which a kernel writes: copies of nothing could not be launched.
TEST(ConvDispatch, AnEmptyBatchKeepsItsOrder) {
  const cuda::PretendGpu pretend(kHopper);
  for (const Extent2& stride : {Extent2{1, 1}, Extent2{4, 4}}) {
    for (const std::int64_t side : {7, 16, 33}) {
      const ConvGeometry g = geometry({.rank = 2,
                                       .batch = 0,
                                       .in_channels = 64,
                                       .out_channels = 64,
                                       .input = {side, side},
                                       .kernel = {5, 5},
                                       .stride = stride,
                                       .padding = {2, 2}});
      for (const ConvMode& mode : kConvModes) {
        const cuda::ConvKernel& kernel = cuda::best_conv_kernel(unplaced_problem(cuda::ConvRole::kFilter, g, mode));
        EXPECT_FALSE(cuda::rearranges(kernel)) << kernel.name;
      }
    }
  }
}

TEST(ConvDispatch, KernelsAreFoundByHowTheirNamesBegin) {
  for (const cuda::ConvRole role : kConvRoles) {
    for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
      EXPECT_EQ(cuda::find_conv_kernel(role, kernel->name), kernel) << kernel->name;
    }
    EXPECT_EQ(cuda::find_conv_kernel(role, "imaginary"), nullptr);
  }
  EXPECT_STREQ(cuda::find_conv_kernel(cuda::ConvRole::kImage, "channelwise")->name, "channelwise_conv_transpose");
}

/// The kernels of conv, conv_transpose and conv_weight.
std::vector<std::string> best_kernels(const ConvCase& c, DType dtype = kFloat32) {
  std::vector<std::string> names;
  for (const cuda::ConvRole role : kConvRoles) {
    cuda::ConvProblem p = problem(role);
    p.geometry = simplified(geometry(c), false);
    p.dtype = dtype;
    names.emplace_back(cuda::best_conv_kernel(p).name);
  }
  return names;
}

// Strides and kernels that no tensor-core kernel supports, or only badly.
TEST(ConvDispatchCuda, LargeStridesBecomeChannels) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const ConvCase fcn{.in_channels = 21, .out_channels = 21, .input = {16, 16}, .kernel = {64, 64}, .stride = {32, 32}};
  const ConvCase frames{
      .batch = 4, .in_channels = 514, .out_channels = 1, .input = {1, 400}, .kernel = {1, 1024}, .stride = {1, 256}};
  for (const ConvCase& c : {fcn, frames}) {
    for (const std::string& name : best_kernels(c)) EXPECT_TRUE(name.starts_with("unshuffled")) << name;
  }
}

// Rows of features that the copy engine does not support, or that are shorter than one of its lines: samples become
// columns, rows are padded, strides become channels.
TEST(ConvDispatchCuda, ShortRowsGetAnotherOrder) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  if (compute_capability() != 90) GTEST_SKIP() << "kernels for sm_90a do not run here";
  const std::pair<const char*, ConvCase> cases[] = {
      {"blocked_conv_weight",
       {.batch = 128,
        .in_channels = 256,
        .out_channels = 128,
        .input = {4, 4},
        .kernel = {4, 4},
        .stride = {2, 2},
        .padding = {1, 1}}},
      {"blocked_conv_weight",
       {.rank = 1,
        .batch = 64,
        .in_channels = 512,
        .out_channels = 256,
        .input = {1, 16},
        .kernel = {1, 25},
        .stride = {1, 4},
        .padding = {0, 11}}},
      {"padded_boxes_conv_weight",
       {.batch = 4, .in_channels = 512, .out_channels = 256, .input = {28, 28}, .kernel = {2, 2}, .stride = {2, 2}}},
      {"unshuffled_boxes_conv_weight",
       {.rank = 1,
        .batch = 16,
        .in_channels = 128,
        .out_channels = 64,
        .input = {1, 3000},
        .kernel = {1, 10},
        .stride = {1, 5}}}};
  for (const auto& [kernel, c] : cases) {
    SCOPED_TRACE(c);
    EXPECT_EQ(best_kernels(c, kBFloat16).back(), kernel);
    const ConvGeometry g = geometry(c);
    for (const ConvMode& mode : kConvModes) {
      SCOPED_TRACE(mode.name);
      const ConvOperands operands = integer_operands(cuda::ConvRole::kFilter, g, mode.dtype, 3, 3, 1);
      const cuda::ConvProblem p = conv_problem(cuda::ConvRole::kFilter, g, mode, operands);
      const Tensor expected = run_guarded(*cuda::conv_kernels(cuda::ConvRole::kFilter).back(), p, 0);
      expect_same_guarded("best", run_guarded(cuda::best_conv_kernel(p), p, 0), expected);
    }
  }
}

// 2^31 image elements: y = (1, 1, ...) through w = (1, 2) at stride 2.
TEST(ConvLargeCuda, MoreElementsThan32BitsCount) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const std::int64_t length = std::int64_t{1} << 30;
  ConvGeometry g;
  g.rank = 1;
  g.image = {1, 2 * length};
  g.feature = {1, length};
  g.kernel = {1, 2};
  g.stride = {1, 2};
  const TensorOptions options{.dtype = kBFloat16, .device = kCUDA};
  const Tensor filter = Tensor::from_vector<double>({1, 2}, {1, 1, 2}, options);
  const Tensor feature = Tensor::ones({1, 1, length}, options);
  const Tensor image = conv_transpose(feature, filter, {}, g);
  expect_values("image's begin", image.narrow(2, 0, 4), {1, 2, 1, 2});
  expect_values("image's end", image.narrow(2, 2 * length - 4, 4), {1, 2, 1, 2});
  const Tensor back = conv(image, filter, {}, g);
  expect_values("feature's begin", back.narrow(2, 0, 3), {5, 5, 5});
  expect_values("feature's end", back.narrow(2, length - 3, 3), {5, 5, 5});
  // Every partial sum is an integer below 2^24, and the last ones are added in float64: exact.
  expect_values("filter", conv_weight(image, feature, g), {0x1p30, 0x1p31});
}

}  // namespace
}  // namespace adjoint::testing
#endif

// How the CUDA kernel of a convolution is chosen, and problems of more elements than 32 bits count.

#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/ops/conv/cuda/dispatch.h>

namespace adjoint::testing {
namespace {

constexpr cuda::ConvRole kRoles[] = {cuda::ConvRole::kFeature, cuda::ConvRole::kImage, cuda::ConvRole::kFilter};

cuda::ConvProblem problem(cuda::ConvRole role) {
  return {.role = role,
          .geometry = {},
          .dtype = kFloat64,
          .precision = Precision::kFull,
          .device = 0,
          .first = nullptr,
          .second = nullptr,
          .bias = nullptr,
          .out = nullptr};
}

TEST(ConvDispatch, PlainKernelsComeLastAndTakeEverything) {
  for (const cuda::ConvRole role : kRoles) {
    const cuda::ConvKernel& last = *cuda::conv_kernels(role).back();
    EXPECT_STREQ(last.name, "plain");
    EXPECT_TRUE(last.takes(problem(role)));
  }
}

TEST(ConvDispatch, AForcedKernelIsChosenWhileTheGuardLives) {
  for (const cuda::ConvRole role : kRoles) {
    const std::string before = cuda::select_conv_kernel(problem(role)).name;
    {
      const cuda::ForceConvKernel guard("plain");
      EXPECT_STREQ(cuda::select_conv_kernel(problem(role)).name, "plain");
    }
    EXPECT_EQ(cuda::select_conv_kernel(problem(role)).name, before);
  }
}

TEST(ConvDispatch, UnknownNamesAreRefused) {
  EXPECT_ERROR(cuda::ForceConvKernel("imaginary"), "ForceConvKernel: name must be a kernel's", "'imaginary'");
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

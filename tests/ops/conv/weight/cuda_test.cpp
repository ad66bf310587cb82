// The tensor-core kernels of conv_weight, each by its name: exact on integers in every arithmetic over the case table
// and over shapes that reach every tile, at odd addresses too; the same bits from run to run.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/precision.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/conv_tiles.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace adjoint::testing {
namespace {

bool takes(const cuda::ConvKernel& kernel, const Tensor& image, const Tensor& feature, const ConvGeometry& g) {
  return kernel.takes({.role = cuda::ConvRole::kFilter,
                       .geometry = g,
                       .dtype = image.dtype(),
                       .precision = float32_precision(),
                       .device = image.device().index,
                       .first = image.raw_data(),
                       .second = feature.raw_data()});
}

/// Calls check(image, feature) in every arithmetic for each tensor-core kernel that takes the problem.
template <class Check>
void in_every_kernel(const ConvProblem& p, const Check& check) {
  for (const cuda::ConvKernel* kernel : cuda::conv_kernels(cuda::ConvRole::kFilter)) {
    if (kernel->name != std::string_view("boxes_conv_weight") &&
        kernel->name != std::string_view("wgmma_conv_weight") &&
        kernel->name != std::string_view("tensor_core_conv_weight")) {
      continue;
    }
    SCOPED_TRACE(kernel->name);
    const cuda::ForceConvKernel forced(kernel->name);
    for (const ConvMode& mode : kConvModes) {
      SCOPED_TRACE(mode.name);
      const PrecisionGuard precision(mode.precision);
      const TensorOptions options{.dtype = mode.dtype};
      const Tensor image = p.image_tensor(options), feature = p.feature_tensor(options);
      if (takes(*kernel, image.to(kCUDA), feature.to(kCUDA), p.geometry)) check(image, feature);
    }
  }
}

void expect_exact(const ConvCase& c, const std::vector<std::int64_t>& offsets) {
  SCOPED_TRACE(c);
  const ConvProblem p = integer_problem(geometry(c));
  const ConvGeometry& g = p.geometry;
  const TensorOptions wide{.dtype = kFloat64};
  const auto expected = conv_weight(p.image_tensor(wide), p.feature_tensor(wide), g).to_vector<double>();
  in_every_kernel(p, [&](const Tensor& image, const Tensor& feature) {
    for (const std::int64_t offset : offsets) {
      SCOPED_TRACE(offset);
      expect_values("conv_weight", conv_weight(displaced(image, offset), displaced(feature, offset), g), expected);
    }
  });
}

TEST(TensorCoreConvWeightCuda, IntegersAreExactOverTheTable) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : conv_cases()) expect_exact(c, {0});
}

TEST(TensorCoreConvWeightCuda, IntegersAreExactInEveryTileAtAnyAddress) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : weight_tile_cases()) expect_exact(c, {0, 1, 2, 4, 7});
}

TEST(TensorCoreConvWeightCuda, RepeatsItsBits) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : weight_tile_cases()) {
    SCOPED_TRACE(c);
    const ConvProblem p = real_problem(geometry(c));
    in_every_kernel(p, [&](const Tensor& host_image, const Tensor& host_feature) {
      const Tensor image = host_image.to(kCUDA), feature = host_feature.to(kCUDA);
      const Tensor first = conv_weight(image, feature, p.geometry);
      for (int run = 0; run < 5; ++run) expect_same_bits("conv_weight", conv_weight(image, feature, p.geometry), first);
    });
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif

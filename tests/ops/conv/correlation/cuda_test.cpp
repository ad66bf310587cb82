// The tensor-core kernels of conv and conv_transpose: exact on integers in every arithmetic over the case table and
// over shapes that reach every tile, at odd addresses too; NaN and infinity as correlation.h promises.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/base/precision.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_machine.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/conv_tiles.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace adjoint::testing {
namespace {

/// Each kernel that supports the problem, including those for other architectures.
void expect_results(const cuda::ConvProblem& problem, const std::vector<double>& expected) {
  for (const cuda::ConvKernel* kernel : cuda::conv_kernels(problem.role)) {
    if (kernel->takes(problem)) expect_values(kernel->name, run_kernel(*kernel, problem), expected);
  }
}

void expect_exact(const ConvCase& c, std::int64_t offset, const cuda::Machine& machine) {
  const ConvProblem p = integer_problem(geometry(c));
  const ConvGeometry& g = p.geometry;
  const TensorOptions wide{.dtype = kFloat64};
  const auto feature =
      conv(p.image_tensor(wide), p.filter_tensor(wide), p.feature_bias_tensor(wide), g).to_vector<double>();
  const auto image =
      conv_transpose(p.feature_tensor(wide), p.filter_tensor(wide), p.image_bias_tensor(wide), g).to_vector<double>();
  for (const ConvMode& mode : kConvModes) {
    SCOPED_TRACE(mode.name);
    const TensorOptions options{.dtype = mode.dtype};
    const Tensor filter = displaced(p.filter_tensor(options), offset);
    const ConvOperands of_conv{displaced(p.image_tensor(options), offset), filter,
                               displaced(p.feature_bias_tensor(options), offset)};
    const ConvOperands of_transpose{displaced(p.feature_tensor(options), offset), filter,
                                    displaced(p.image_bias_tensor(options), offset)};
    expect_results(conv_problem(cuda::ConvRole::kFeature, g, mode, of_conv, machine), feature);
    expect_results(conv_problem(cuda::ConvRole::kImage, g, mode, of_transpose, machine), image);
  }
}

TEST(CorrelationCuda, IntegersAreExactOverTheTable) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(c);
    expect_exact(c, 0, {});
  }
}

TEST(CorrelationCuda, IntegersAreExactInEveryTileAtAnyAddress) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : correlation_tile_cases()) {
    SCOPED_TRACE(c);
    for (const std::int64_t offset : {0, 1, 2, 4, 7}) {
      SCOPED_TRACE(offset);
      expect_exact(c, offset, kOneMultiprocessor);
    }
  }
}

/// conv of half precision by pairs of neighbouring columns, also at addresses that the copy engine cannot read.
TEST(CorrelationCuda, IntegersAreExactInPairsOfColumnsAtAnyAddress) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const auto layer = [](std::int64_t in_channels, std::int64_t out_channels, std::int64_t groups, const Extent2& input,
                        const Extent2& kernel, const Extent2& stride, const Extent2& padding) {
    return ConvCase{.batch = 2,
                    .in_channels = in_channels,
                    .out_channels = out_channels,
                    .groups = groups,
                    .input = input,
                    .kernel = kernel,
                    .stride = stride,
                    .padding = padding};
  };
  for (const ConvCase& c :
       {layer(64, 64, 1, {8, 16}, {2, 2}, {2, 2}, {0, 0}), layer(64, 64, 1, {8, 16}, {4, 4}, {2, 2}, {1, 1}),
        layer(32, 32, 2, {1, 64}, {1, 8}, {1, 4}, {0, 2}), layer(64, 32, 1, {1, 64}, {1, 16}, {1, 8}, {0, 4})}) {
    SCOPED_TRACE(c);
    cuda::CorrelationPlan plan;
    ASSERT_TRUE(cuda::plan_correlation(geometry(c), false, cuda::Arithmetic::kBFloat16, cuda::kCorrelationLimits,
                                       kOneMultiprocessor, plan));
    EXPECT_EQ(plan.unit_columns, 2) << "it is not by pairs any more";
    for (const std::int64_t offset : {0, 1, 4}) expect_exact(c, offset, kOneMultiprocessor);
  }
}

/// Returns true if a value at (h, w) of the image may be non-finite because (oh, ow) of the feature is.
bool within_a_stride(const ConvGeometry& g, std::int64_t h, std::int64_t w, std::int64_t oh, std::int64_t ow) {
  const auto near = [&](int axis, std::int64_t i, std::int64_t o) {
    for (std::int64_t k = 0; k < g.kernel.in_plane(axis); ++k) {
      const std::int64_t touched =
          image_position(o, k, g.stride.in_plane(axis), g.padding.in_plane(axis), g.dilation.in_plane(axis));
      if (std::abs(i - touched) < g.stride.in_plane(axis)) return true;
    }
    return false;
  };
  return near(0, h, oh) && near(1, w, ow);
}

void expect_nonfinite(const ConvCase& c, double value) {
  const ConvGeometry g = geometry(c);
  ConvProblem p = integer_problem(g);
  if (p.feature.empty()) return;
  const auto place = static_cast<std::size_t>(g.feature_numel() / 2);
  p.feature[place] = value;
  const auto at = static_cast<std::int64_t>(place);
  const std::int64_t ow = at % g.feature.w, oh = at / g.feature.w % g.feature.h;
  const std::int64_t channel = at / g.feature_plane() % g.feature_channels,
                     n = at / g.feature_plane() / g.feature_channels;
  const auto expected = oracle::conv_transpose(g, p.feature, p.filter, p.image_bias);
  for (const ConvMode& mode : kConvModes) {
    SCOPED_TRACE(mode.name);
    const PrecisionGuard precision(mode.precision);
    const TensorOptions options{.dtype = mode.dtype, .device = kCUDA};
    const auto actual =
        conv_transpose(p.feature_tensor(options), p.filter_tensor(options), p.image_bias_tensor(options), g)
            .to(kCPU)
            .to(kFloat64)
            .to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(actual[i])) << i;
      } else if (std::isinf(expected[i])) {
        ASSERT_EQ(actual[i], expected[i]) << i;
      } else if (!std::isfinite(actual[i])) {
        const auto to = static_cast<std::int64_t>(i);
        const std::int64_t image_channel = to / g.image_plane() % g.image_channels;
        ASSERT_EQ(to / g.image_plane() / g.image_channels, n) << "another sample, at " << i;
        ASSERT_EQ(image_channel / g.image_channels_per_group(), channel / g.feature_channels_per_group())
            << "another group, at " << i;
        ASSERT_TRUE(within_a_stride(g, to / g.image.w % g.image.h, to % g.image.w, oh, ow)) << "far away, at " << i;
      }
    }
  }
}

TEST(CorrelationCuda, NonFiniteValuesStayWithinAStride) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (std::size_t i = 0; i < conv_cases().size(); i += 3) {
    SCOPED_TRACE(conv_cases()[i]);
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      expect_nonfinite(conv_cases()[i], value);
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif

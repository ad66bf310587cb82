// The kernels for few channels a group on the emulator: exact on small integers in every dtype, at any address and in
// any order of execution, with NaN and infinity where the oracle has them.
#include <adjoint/tests/ops/conv/pipeline/cases.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/channelwise/cuda/depthwise/launch.cuh>
#include <adjoint/ops/conv/channelwise/cuda/launch.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

/// One of the arithmetics in elements of T.
template <class T>
constexpr cuda::Arithmetic kArithmeticOf = sizeof(T) == 2 ? cuda::Arithmetic::kBFloat16 : cuda::Arithmetic::kTF32;

template <class T>
void check_gather(const ConvProblem& p, bool transposed, std::uint64_t seed, std::set<std::string>& kernels) {
  const ConvGeometry& g = p.geometry;
  cuda::ChannelwisePlan plan;
  ASSERT_TRUE(cuda::plan_channelwise(g, transposed, kArithmeticOf<T>, plan));
  ASSERT_LE(plan.smem_bytes(), cuda::kChannelwiseSmemBytes);
  kernels.insert(std::to_string(plan.taps_h) + "x" + std::to_string(plan.taps_w) + "/" +
                 std::to_string(plan.walk_shift) + " " + std::to_string(plan.channel_block));
  SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
  EmulatedCall<T> call(p, transposed, {}, seed);
  emulate_launches(seed);
  cuda::run_channelwise_gather<kDTypeOf<T>>(plan, call.problem());
  call.expect_right();
}

template <class T>
void check_depthwise(const ConvProblem& p, bool transposed, std::uint64_t seed) {
  SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
  const ConvGeometry& g = p.geometry;
  cuda::DepthwisePlan plan;
  ASSERT_TRUE(cuda::plan_depthwise(g, transposed, sizeof(T), plan));
  const auto last = [&](const std::vector<double>& values, const Extents& extents) {
    return channels_last(values, g.groups, extents.product());
  };
  const Expected expected = expected_results(p, transposed, kReLU);
  const std::vector<double>& bias = transposed ? p.image_bias : p.feature_bias;
  Operand<T> source(transposed ? last(p.feature, g.feature) : last(p.image, g.image), 0), filter(p.filter, 0),
      biases(bias, 0), out(std::vector<double>(expected.results.size(), std::nan("")), 0);
  emulate_launches(seed);
  cuda::run_depthwise<kDTypeOf<T>>(plan, {.role = transposed ? cuda::ConvRole::kImage : cuda::ConvRole::kFeature,
                                          .geometry = g,
                                          .first = source.data(),
                                          .second = filter.data(),
                                          .bias = bias.empty() ? nullptr : biases.data(),
                                          .out = out.data(),
                                          .activation = kReLU});
  expect_equal(out.data(), last(expected.results, transposed ? g.image : g.feature));
  EXPECT_TRUE(out.surroundings_are_kept());
}

template <class T>
void check_depthwise_weight(const ConvProblem& p, std::uint64_t seed) {
  SCOPED_TRACE("conv_weight");
  const ConvGeometry& g = p.geometry;
  cuda::DepthwiseWeightPlan plan;
  // One multiprocessor gets long slices, of several strips for each thread.
  ASSERT_TRUE(cuda::plan_depthwise_weight(g, sizeof(T), {.multiprocessors = seed % 2 == 0 ? 1 : 132}, plan));
  const auto last = [&](const std::vector<double>& values, const Extents& extents) {
    return Operand<T>(channels_last(values, g.groups, extents.product()), 0);
  };
  Operand<T> image = last(p.image, g.image), feature = last(p.feature, g.feature);
  std::vector<float> sums(static_cast<std::size_t>(plan.sums_bytes()) / sizeof(float), std::nanf(""));
  emulate_launches(seed);
  cuda::run_depthwise_weight<kDTypeOf<T>>(
      plan, {.role = cuda::ConvRole::kFilter, .geometry = g, .first = image.data(), .second = feature.data()},
      sums.data());
  const auto taps = static_cast<std::size_t>(g.taps()), slices = static_cast<std::size_t>(plan.slices);
  std::vector<double> filter(p.filter.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    filter[i / taps / slices * taps + i % taps] += static_cast<double>(sums[i]);
  }
  EXPECT_EQ(filter, oracle::conv_weight(g, p.image, p.feature));
}

template <class T>
void check_depthwise_cases() {
  const ConvCase kCases[] = {
      {.name = "three",
       .in_channels = 24,
       .out_channels = 24,
       .groups = 24,
       .input = {6, 9},
       .kernel = {3, 3},
       .padding = {1, 1}},
      {.name = "seven",
       .in_channels = 8,
       .out_channels = 8,
       .groups = 8,
       .input = {9, 7},
       .kernel = {7, 7},
       .padding = {3, 3}},
      {.name = "five", .in_channels = 136, .out_channels = 136, .groups = 136, .input = {4, 5}, .kernel = {5, 5}},
      {.name = "two",
       .in_channels = 8,
       .out_channels = 8,
       .groups = 8,
       .input = {5, 11},
       .kernel = {2, 4},
       .padding = {0, 2}},
      {.name = "spaced",
       .in_channels = 16,
       .out_channels = 16,
       .groups = 16,
       .input = {7, 8},
       .kernel = {3, 3},
       .padding = {2, 1},
       .dilation = {1, 2}},
      {.name = "stride",
       .in_channels = 8,
       .out_channels = 8,
       .groups = 8,
       .input = {4, 5},
       .kernel = {3, 3},
       .stride = {2, 3},
       .padding = {1, 1}}};
  std::uint64_t seed = 0;
  for (const ConvCase& c : kCases) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    check_depthwise<T>(p, false, ++seed);
    if (p.geometry.stride.h == 1) check_depthwise<T>(p, true, ++seed);
    check_depthwise_weight<T>(p, ++seed);
    check_depthwise_weight<T>(p, ++seed);
  }
}

TEST(ChannelwiseEmulation, DepthwiseInChannelsLast) {
  check_depthwise_cases<float>();
  check_depthwise_cases<__nv_bfloat16>();
  check_depthwise_cases<__half>();
}

template <class T>
void check_weight(const ConvProblem& p, std::uint64_t seed, std::set<std::string>& kernels) {
  cuda::ChannelwiseWeightPlan plan;
  ASSERT_TRUE(cuda::plan_channelwise_weight(p.geometry, kArithmeticOf<T>, plan));
  const cuda::ChannelwisePlan& walk = plan.walk;
  ASSERT_LE(plan.smem_bytes(), cuda::kChannelwiseSmemBytes);
  // So few sums are one tile a split; half of the cases stage one tile while another one is added up.
  if (seed % 2 == 0) {
    plan.tiles_per_split = 3;
    plan.splits = static_cast<std::int32_t>((walk.tiles() + 2) / 3);
  }
  kernels.insert("weight " + std::to_string(walk.taps_h) + "x" + std::to_string(walk.taps_w) + "/" +
                 std::to_string(walk.walk_shift) + (walk.w.tap_spacing == 1 ? "" : " spaced"));
  Operand<T> image(p.image, seed % 9), feature(p.feature, seed % 3);
  Operand<T> out(std::vector<double>(p.filter.size(), std::numeric_limits<double>::quiet_NaN()), 0);
  emulate_launches(seed);
  cuda::run_channelwise_weight<kDTypeOf<T>>(plan, {.role = cuda::ConvRole::kFilter,
                                                   .geometry = p.geometry,
                                                   .first = image.data(),
                                                   .second = feature.data(),
                                                   .out = out.data()});
  SCOPED_TRACE("conv_weight");
  expect_equal(out.data(), oracle::conv_weight(p.geometry, p.image, p.feature));
}

template <class T>
void check_trio(const ConvProblem& p, std::uint64_t seed, std::set<std::string>& kernels) {
  check_gather<T>(p, true, seed, kernels);
  check_gather<T>(p, false, seed, kernels);
  check_weight<T>(p, seed, kernels);
}

ConvCase random_channelwise_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (;;) {
    ConvCase c{.name = "seed" + std::to_string(seed)};
    const bool row = upto(0, 2) == 0, dilated = upto(0, 3) == 0, square = upto(0, 1) == 0;
    c.batch = upto(1, 3);
    c.groups = upto(1, 4);
    c.in_channels = c.groups * (upto(0, 1) == 0 ? 1 : upto(1, 4));
    c.out_channels = c.groups * (upto(0, 1) == 0 ? 1 : upto(1, 4));
    for (std::size_t axis = 0; axis < 2; ++axis) {
      c.input.in_plane(axis) = row ? (axis == 0 ? 1 : upto(1, 300)) : upto(1, upto(0, 4) == 0 ? 60 : 20);
      c.kernel.in_plane(axis) = row && axis == 0 ? 1 : upto(1, upto(0, 5) == 0 ? 16 : 5);
      c.stride.in_plane(axis) = upto(1, upto(0, 5) == 0 ? 8 : 3);
      if (square && axis == 1) {
        c.kernel.w = row ? c.kernel.w : c.kernel.h;
        c.stride.w = c.stride.h;
      }
      c.dilation.in_plane(axis) = dilated ? upto(1, 4) : 1;
      c.padding.in_plane(axis) = row && axis == 0 ? 0 : upto(0, 4);
      c.output_padding.in_plane(axis) =
          row && axis == 0 ? 0 : upto(0, std::max(c.stride.in_plane(axis), c.dilation.in_plane(axis)) - 1);
    }
    const Extents out = output_extents(c);
    if (out.h >= 1 && out.w >= 1 && multiply_adds(c) < 1'000'000) return c;
  }
}

template <class T>
class ChannelwiseEmulation : public ::testing::Test {};
using Elements = ::testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(ChannelwiseEmulation, Elements);

TYPED_TEST(ChannelwiseEmulation, RandomGeometriesAreExact) {
  std::set<std::string> kernels;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ConvCase c = random_channelwise_case(seed);
    SCOPED_TRACE(c);
    check_trio<TypeParam>(integer_problem(geometry(c)), seed, kernels);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GE(kernels.size(), 30) << "kernels that these geometries reach";
}

TYPED_TEST(ChannelwiseEmulation, NonFiniteValuesAppearWhereTheOraclePutsThem) {
  std::set<std::string> kernels;
  for (std::uint64_t seed = 200; seed < 206; ++seed) {
    const ConvCase c = random_channelwise_case(seed);
    SCOPED_TRACE(c);
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      for (auto operand : {&ConvProblem::image, &ConvProblem::filter, &ConvProblem::feature}) {
        ConvProblem p = integer_problem(geometry(c));
        (p.*operand)[(p.*operand).size() / 2] = value;
        check_trio<TypeParam>(p, seed, kernels);
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing

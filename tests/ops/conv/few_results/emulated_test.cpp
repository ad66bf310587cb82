// The kernels for few results a position on the emulator: exact on small integers in every dtype, at any address and in
// any order of execution, with NaN and infinity where the oracle has them.
#include <adjoint/ops/conv/sums/cuda/slices.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/few_results/cuda/launch.cuh>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

/// The parts of the kernels that the cases have reached.
using Reached = std::set<std::string>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// run_kernel(partial), and the addition of its slices if there are several.
template <class Plan, class RunKernel>
void run(const Plan& plan, const cuda::ConvProblem& problem, std::uint64_t seed, const RunKernel& run_kernel) {
  Operand<float> partial(nothing(plan.workspace_bytes() / 4), 0);
  emulate_launches(seed);
  run_kernel(plan.slices > 1 ? partial.data() : nullptr);
  EXPECT_TRUE(partial.surroundings_are_kept());
  if (plan.slices > 1) cuda::add_slices(problem, partial.data(), plan.slices);
}

template <class T>
void check(const ConvProblem& p, bool transposed, const Activation& activation, std::uint64_t seed, Reached& reached) {
  const ConvGeometry& g = p.geometry;
  cuda::FewResultsPlan plan;
  if (!cuda::plan_few_results(g, transposed, {}, plan)) return;
  SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
  EmulatedCall<T> call(p, transposed, activation, seed);
  const cuda::ConvProblem& problem = call.problem();
  run(plan, problem, seed, [&](float* partial) { cuda::run_few_results<kDTypeOf<T>>(plan, problem, partial); });
  call.expect_right();
  reached.insert(std::to_string(plan.channels) + " results");
  reached.insert(plan.slices > 1 ? "slices" : "one slice");
  reached.insert(std::to_string(plan.lanes) + " lanes");
  if (plan.tiles > 1) reached.insert("tiles");
  if (g.groups > 1) reached.insert("groups");
}

template <class T>
void check_weight(const ConvProblem& p, std::uint64_t seed, Reached& reached) {
  const ConvGeometry& g = p.geometry;
  cuda::FewWeightPlan plan;
  if (!cuda::plan_few_weight(g, {}, plan)) return;
  SCOPED_TRACE("conv_weight");
  Operand<T> image(p.image, seed % 9), feature(p.feature, seed % 5);
  Operand<T> out(nothing(g.filter_numel()), seed % 3);
  const cuda::ConvProblem problem{.role = cuda::ConvRole::kFilter,
                                  .geometry = g,
                                  .dtype = kDTypeOf<T>,
                                  .precision = Precision::kFull,
                                  .device = 0,
                                  .first = image.data(),
                                  .second = feature.data(),
                                  .out = out.data()};
  run(plan, problem, seed, [&](float* partial) { cuda::run_few_weight<kDTypeOf<T>>(plan, problem, partial); });
  expect_equal(out.data(), oracle::conv_weight(p.geometry, p.image, p.feature));
  EXPECT_TRUE(out.surroundings_are_kept());
  reached.insert("filter " + std::to_string(plan.tile_image) + " x " + std::to_string(plan.tile_taps));
  reached.insert(plan.slices > 1 ? "filter slices" : "one filter slice");
}

/// Few channels of the feature or of the image.
ConvCase few_case(std::uint64_t seed) {
  ConvCase c = random_case(seed);
  (seed % 2 == 0 ? c.in_channels : c.out_channels) = c.groups * static_cast<std::int64_t>(1 + seed / 2 % 5);
  return c;
}

template <class T>
void check_all(const ConvProblem& p, const Activation& activation, std::uint64_t seed, Reached& reached) {
  for (const bool transposed : {false, true}) check<T>(p, transposed, activation, seed, reached);
  check_weight<T>(p, seed, reached);
}

template <class T>
class FewResultsEmulation : public ::testing::Test {};
using Elements = ::testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(FewResultsEmulation, Elements);

TYPED_TEST(FewResultsEmulation, RandomGeometriesAreExact) {
  Reached reached;
  for (std::uint64_t seed = 0; seed < 2 * kRandomCases; ++seed) {
    const ConvCase c = few_case(seed);
    SCOPED_TRACE(c);
    check_all<TypeParam>(integer_problem(geometry(c)), seed % 4 == 1 ? kReLU : Activation{}, seed, reached);
    if (::testing::Test::HasFailure()) return;
  }
  if (kRandomCases < 40) return;
  for (const char* what : {"1 results", "2 results", "3 results", "4 results", "tiles", "groups", "one slice",
                           "filter 1 x 4", "filter 2 x 4", "filter 4 x 4"}) {
    EXPECT_TRUE(reached.contains(what)) << what;
  }
}

/// The ends of discriminators in small, and other cases that random extents seldom reach.
TYPED_TEST(FewResultsEmulation, EveryPathIsExact) {
  Reached reached;
  const ConvCase cases[] = {
      {.name = "one_position", .batch = 2, .in_channels = 1, .out_channels = 80, .kernel = {4, 4}},
      {.name = "matrix", .batch = 3, .in_channels = 1, .out_channels = 2100},
      {.name = "plane", .in_channels = 1, .out_channels = 70, .input = {6, 7}, .kernel = {4, 4}, .padding = {1, 1}},
      {.name = "column", .in_channels = 1, .out_channels = 90, .input = {14, 3}, .kernel = {3, 1}, .padding = {1, 0}},
      {.name = "upscale",
       .batch = 3,
       .in_channels = 70,
       .out_channels = 1,
       .input = {5, 6},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "three_channels", .in_channels = 40, .out_channels = 3, .input = {13, 15}, .kernel = {3, 3}},
      {.name = "two_channels", .batch = 3, .in_channels = 2, .out_channels = 20, .input = {12, 16}},
      {.name = "groups_of_four", .in_channels = 8, .out_channels = 40, .groups = 2, .input = {9, 9}, .kernel = {2, 2}},
      {.name = "strided",
       .in_channels = 1,
       .out_channels = 37,
       .input = {5, 7},
       .kernel = {5, 1},
       .stride = {3, 1},
       .padding = {2, 0},
       .output_padding = {1, 0}},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    for (const std::uint64_t seed : {0, 10, 21}) {
      check_all<TypeParam>(integer_problem(geometry(c)), seed == 10 ? kReLU : Activation{}, seed, reached);
    }
  }
  for (const char* what : {"slices", "one slice", "1 lanes", "32 lanes", "64 lanes", "filter slices",
                           "one filter slice", "filter 4 x 1", "filter 2 x 1"}) {
    EXPECT_TRUE(reached.contains(what)) << what;
  }
}

TYPED_TEST(FewResultsEmulation, NonFiniteValuesAppearWhereTheOraclePutsThemAndNowhereElse) {
  Reached reached;
  for (std::uint64_t seed = 300; seed < 308; ++seed) {
    const ConvCase c = few_case(seed);
    SCOPED_TRACE(c);
    for (const double value : {kNaN, std::numeric_limits<double>::infinity()}) {
      for (auto operand : {&ConvProblem::image, &ConvProblem::filter, &ConvProblem::feature}) {
        ConvProblem p = integer_problem(geometry(c));
        (p.*operand)[(p.*operand).size() / 2] = value;
        check_all<TypeParam>(p, {}, seed, reached);
      }
    }
  }
}

/// Terms of one sign, 2048 for each thread, as in large batches: a running sum would be several units of roundoff away.
TEST(FewResultsAccuracyEmulation, LongSumsAreMadeOfParts) {
  ConvProblem p =
      real_problem(geometry({.batch = 1, .in_channels = 1, .out_channels = 512, .input = {8, 8}, .kernel = {4, 4}}));
  for (std::vector<double>* values : {&p.image, &p.filter}) {
    for (double& value : *values) value = static_cast<float>(std::abs(value));
  }
  const std::vector<double> exact = oracle::conv(p.geometry, p.image, p.filter, {});
  cuda::FewResultsPlan plan;
  ASSERT_TRUE(cuda::plan_few_results(p.geometry, false, {}, plan));
  plan.slices = 1;
  plan.slice_channels = plan.source_channels;
  Operand<float> image(p.image, 0), filter(p.filter, 0), out(nothing(p.geometry.feature_numel()), 0);
  emulate_launches(0);
  cuda::run_few_results<kFloat32>(
      plan, {.role = cuda::ConvRole::kFeature, .first = image.data(), .second = filter.data(), .out = out.data()},
      nullptr);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(out.data()[i] / exact[i], 1, 3 * 0x1p-24) << i;
}

}  // namespace
}  // namespace adjoint::testing

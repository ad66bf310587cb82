// The kernels for few channels a group: exact on integers in every dtype over shapes that reach every compiled number
// of taps, at odd addresses, with NaN and infinity where the oracle has them; the same bits in every run.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/tests/support/conv_choices.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_trio.h>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace adjoint::testing {
namespace {

const std::vector<ConvCase>& grouped_cases() {
  static const std::vector<ConvCase> cases = {
      {.name = "up2",
       .in_channels = 6,
       .out_channels = 6,
       .groups = 6,
       .input = {17, 40},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "multiplier",
       .in_channels = 3,
       .out_channels = 12,
       .groups = 3,
       .input = {9, 150},
       .kernel = {3, 3},
       .stride = {1, 1},
       .padding = {1, 1}},
      {.name = "three_a_group",
       .in_channels = 9,
       .out_channels = 6,
       .groups = 3,
       .input = {8, 9},
       .kernel = {5, 5},
       .stride = {2, 1},
       .padding = {2, 2},
       .output_padding = {1, 0}},
      {.name = "row",
       .in_channels = 4,
       .out_channels = 4,
       .groups = 4,
       .input = {1, 5000},
       .kernel = {1, 16},
       .stride = {1, 8},
       .padding = {0, 4}},
      {.name = "short_row",
       .in_channels = 4,
       .out_channels = 4,
       .groups = 4,
       .input = {1, 700},
       .kernel = {1, 4},
       .stride = {1, 2},
       .padding = {0, 1},
       .dilation = {1, 3}},
      {.name = "one_pixel", .in_channels = 4, .out_channels = 4, .groups = 4, .input = {1, 1}, .kernel = {5, 5}},
      {.name = "no_taps",
       .in_channels = 2,
       .out_channels = 2,
       .groups = 2,
       .input = {5, 6},
       .kernel = {2, 2},
       .stride = {3, 3},
       .output_padding = {1, 2}},
      {.name = "up8",
       .in_channels = 2,
       .out_channels = 2,
       .groups = 2,
       .input = {9, 21},
       .kernel = {16, 16},
       .stride = {8, 8},
       .padding = {4, 4}},
      {.name = "large_kernel",
       .in_channels = 3,
       .out_channels = 3,
       .groups = 3,
       .input = {30, 45},
       .kernel = {7, 7},
       .padding = {3, 3}},
      {.name = "strided_dilated_grouped",
       .in_channels = 6,
       .out_channels = 4,
       .groups = 2,
       .input = {19, 33},
       .kernel = {3, 5},
       .stride = {2, 3},
       .padding = {2, 1},
       .output_padding = {1, 0},
       .dilation = {3, 2}},
      {.name = "wide",
       .batch = 1,
       .in_channels = 2,
       .out_channels = 2,
       .groups = 2,
       .input = {40, 601},
       .kernel = {3, 3},
       .padding = {1, 1}},
      {.name = "small_planes",
       .batch = 65,
       .in_channels = 40,
       .out_channels = 40,
       .groups = 40,
       .input = {7, 7},
       .kernel = {3, 3},
       .stride = {1, 1},
       .padding = {1, 1}},
      {.name = "four_a_group_up2",
       .in_channels = 8,
       .out_channels = 8,
       .groups = 2,
       .input = {17, 40},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "four_a_group",
       .in_channels = 8,
       .out_channels = 8,
       .groups = 2,
       .input = {19, 50},
       .kernel = {3, 3},
       .padding = {1, 1}},
      {.name = "two_a_group",
       .in_channels = 6,
       .out_channels = 6,
       .groups = 3,
       .input = {19, 50},
       .kernel = {3, 3},
       .stride = {2, 2},
       .padding = {1, 1},
       .output_padding = {1, 1}},
      {.name = "one_to_many",
       .in_channels = 11,
       .out_channels = 1,
       .input = {12, 30},
       .kernel = {9, 9},
       .padding = {4, 4}},
      {.name = "two_kernels",
       .batch = 1,
       .in_channels = 2,
       .out_channels = 2,
       .groups = 2,
       .input = {40, 33},
       .kernel = {4, 4},
       .stride = {3, 2},
       .dilation = {2, 1}},
  };
  return cases;
}

// The chooser may prefer other kernels.
constexpr const char* kFamily = "channelwise";

void expect_oracles(const ConvProblem& p, DType dtype) {
  SCOPED_TRACE(to_string(dtype));
  expect_trio_values(run_trio_on(kFamily, p, dtype), oracle_trio(p));
}

TEST(Channelwise, TakesTheCases) {
  const cuda::PretendGpu pretend(kHopper);
  for (const ConvCase& c : grouped_cases()) {
    SCOPED_TRACE(c);
    for (const cuda::ConvRole role : kConvRoles) {
      for (const ConvMode& mode : kConvModes) {
        cuda::ConvProblem problem = unplaced_problem(role, geometry(c), mode);
        problem.geometry = geometry(c);  // unchanged
        EXPECT_TRUE(cuda::find_conv_kernel(role, kFamily)->takes(problem));
      }
    }
  }
}

TEST(ChannelwiseCuda, IntegersAreExact) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : grouped_cases()) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) expect_oracles(p, dtype);
  }
}

TEST(ChannelwiseCuda, NonFiniteValuesAppearWhereTheOraclePutsThem) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : grouped_cases()) {
    SCOPED_TRACE(c);
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      for (auto operand : {&ConvProblem::image, &ConvProblem::filter, &ConvProblem::feature}) {
        ConvProblem p = integer_problem(geometry(c));
        (p.*operand)[(p.*operand).size() / 2] = value;
        expect_oracles(p, kFloat32);
      }
    }
  }
}

TEST(ChannelwiseCuda, RepeatsItsBits) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : grouped_cases()) {
    SCOPED_TRACE(c);
    const ConvProblem p = real_problem(geometry(c));
    const TrioTensors first = run_trio_on(kFamily, p, kFloat32);
    expect_same_trio("again", run_trio_on(kFamily, p, kFloat32), first);
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif

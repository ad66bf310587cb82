// The CPU's convolutions that shift a slab instead of gathering each tap: both compute the same.
#include <adjoint/ops/conv/cpu/gather_plan.h>
#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace adjoint::testing {
namespace {

bool shifts(const ConvCase& c, bool transposed, bool exact_taps = false) {
  const cpu::PlanLimits limits{.block = 8, .panel = 16, .exact_taps = exact_taps};
  const ConvGeometry g = geometry(c);
  const auto plans = transposed ? cpu::conv_transpose_plans(g, limits) : cpu::conv_plans(g, limits);
  return std::ranges::any_of(plans, &cpu::OwnedGatherPlan::by_shifts);
}

TEST(GatherPlan, NarrowProductsOfSeveralTapsAreShifts) {
  const ConvCase narrow{
      .batch = 4, .in_channels = 4, .out_channels = 4, .input = {64, 64}, .kernel = {3, 3}, .padding = {1, 1}};
  for (const bool transposed : {false, true}) {
    EXPECT_TRUE(shifts(narrow, transposed));
    EXPECT_FALSE(shifts(narrow, transposed, true)) << "zeros around the plane would be multiplied";
    ConvCase c = narrow;
    c.kernel = {1, 1};
    c.padding = {0, 0};
    EXPECT_FALSE(shifts(c, transposed)) << "one tap";
    c = narrow;
    c.in_channels = c.out_channels = 65;
    EXPECT_FALSE(shifts(c, transposed)) << "a wide product";
    c = narrow;
    c.kernel = {1, 2};
    c.padding = {0, 0};
    c.dilation = {1, 60};
    EXPECT_FALSE(shifts(c, transposed)) << "a slab of more elements than its taps gather";
  }
}

// A channel for each filter, which is as long as a reverberation.
TEST(GatherPlan, LongFiltersOfFewChannelsAreShifts) {
  for (const std::int64_t taps : {511, 512, 513, 1025, 2049, 20001}) {
    for (const std::int64_t channels : {1, 4}) {
      const ConvCase c{.batch = 1,
                       .in_channels = channels * 2,
                       .out_channels = channels * 2,
                       .groups = 2,
                       .input = {1, 30000},
                       .kernel = {1, taps},
                       .padding = {0, taps / 2}};
      for (const bool transposed : {false, true}) {
        EXPECT_EQ(shifts(c, transposed), channels == 1 || taps < 8000) << taps << " " << channels;
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing

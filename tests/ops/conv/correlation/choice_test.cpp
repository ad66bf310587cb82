// Which tiles, stages and steps the planner of conv's and conv_transpose's tensor-core kernels chooses, by its model of
// clocks; that plans are right, plan_test.cpp checks.
#include <adjoint/ops/conv/correlation/clocks.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/tests/support/conv_geometries.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace adjoint::cuda {
namespace {

using adjoint::testing::make_geometry;

// Positions fill tiles for every padding.
TEST(CorrelationChoice, PositionsAreNoMoreThanTheOutputNeeds) {
  CorrelationPlan plan;
  const ConvGeometry g = make_geometry(128, 256, 512, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0});
  ASSERT_TRUE(plan_correlation(g, true, Arithmetic::kTF32, {}, {}, plan));
  EXPECT_EQ(plan.q_h, 8);
  EXPECT_EQ(plan.q_w, 8);
  EXPECT_EQ(plan.tiles() * 64 * plan.m_tiles * plan.consumers * plan.tile_columns, std::int64_t{128} * 256 * 16 * 16);
}

// A tile's rows are long if the L2 does not keep the results: the rest of a partly written sector is read from memory.
// Rows of eight positions waste none of 514, and were 2.4 times as slow as those of 32.
TEST(CorrelationChoice, LargeResultsAreWrittenInLongRuns) {
  CorrelationPlan plan;
  const auto written_at_once = [&](const ConvGeometry& g, Arithmetic arithmetic) {
    double best = std::numeric_limits<double>::infinity();
    int positions = 0;
    for (const CorrelationLimits& limits : {kCorrelationLimits, kBlockedLimits}) {
      if (!plan_correlation(g, true, arithmetic, limits, {}, plan)) continue;
      const double clocks = correlation_clocks(plan, false, {});
      if (clocks >= best) continue;
      best = clocks;
      positions = 1 << plan.log2_tile_w;
    }
    return positions;
  };
  for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kBFloat16}) {
    const auto large = make_geometry(16, 128, 64, 1, {512, 512}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0});
    EXPECT_GE(written_at_once(large, arithmetic), 32);
    const auto strided = make_geometry(128, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {0, 0}, {1, 1}, {0, 0});
    EXPECT_GE(written_at_once(strided, arithmetic), 16);
  }
  const auto small = make_geometry(1, 128, 64, 1, {64, 64}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0});
  EXPECT_EQ(written_at_once(small, Arithmetic::kBFloat16), 8) << "66 columns, which the L2 keeps";
}

// Tiles of several rows of phases store results one by one, which costs more than it saves except for a few channels.
TEST(CorrelationChoice, SeveralRowsOfPhasesShareTilesOfFewChannels) {
  CorrelationPlan plan;
  const auto rows = [&](std::int64_t channels, Arithmetic arithmetic, const CorrelationLimits& limits) {
    const auto g = make_geometry(16, channels, 32, 1, {128, 128}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1});
    EXPECT_TRUE(plan_correlation(g, true, arithmetic, limits, {}, plan));
    return plan.phases_per_class;
  };
  for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kBFloat16}) {
    EXPECT_EQ(rows(32, arithmetic, kBlockedLimits), 1);
    EXPECT_EQ(rows(32, arithmetic, kCorrelationLimits), 1);
  }
  EXPECT_EQ(rows(1, Arithmetic::kBFloat16, kCorrelationLimits), 2);
}

// One channel and 81 taps, cut into passes by the row's residue: whole steps except for the last of each pass.
TEST(CorrelationChoice, FewChannelsGather) {
  CorrelationPlan plan;
  const ConvGeometry g = make_geometry(16, 1, 56, 1, {256, 256}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2});
  ASSERT_TRUE(plan_correlation(g, false, Arithmetic::kTF32, {.gathers = true}, {}, plan));
  EXPECT_TRUE(plan.gathers);
  EXPECT_EQ(plan.class_list[0].steps, 6);
  ASSERT_TRUE(plan_correlation(g, false, Arithmetic::kTF32, kCorrelationLimits, {}, plan));
  EXPECT_TRUE(plan.gathers);
  EXPECT_TRUE(plan.boxed) << "though neighbouring positions are three columns apart";
}

}  // namespace
}  // namespace adjoint::cuda

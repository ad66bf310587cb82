// The schedule of the kernels for few channels a group, replayed: every result belongs to one step of one walk, and
// every tap of it is in the tile's stage, over the image position that the definition names.
#include <adjoint/ops/conv/channelwise/plan.h>
#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <vector>

namespace adjoint::testing {
namespace {

using cuda::Arithmetic;
using cuda::ChannelwisePlan;
using cuda::ChannelwiseRun;
using cuda::ChannelwiseTile;

struct Result {
  std::int32_t row, column, stage_row, stage_column;  // the stage's place of tap (0, 0)
};

/// Step `step` of a tile's walk down lane `lane` and phase `phase`.
Result result_at(const ChannelwisePlan& p, const ChannelwiseTile& tile, std::int32_t phase, std::int32_t lane,
                 std::int32_t step) {
  const cuda::ChannelwiseRows rows = cuda::channelwise_rows(p, tile, phase);
  Result r{rows.result_row, tile.column + lane, rows.stage_row, 0};
  if (p.along_row != 0) {
    r.column += step * p.lanes;
  } else {
    r.row += step * p.h.residues * p.h.phases;
    r.stage_row += step * p.h.shift;
  }
  const std::int32_t first = tile.column + lane, period = first / p.w.phases;
  r.stage_column = p.w.run[first % p.w.phases].source + period * p.w.period_source - tile.source_column;
  if (p.along_row != 0) r.stage_column += step * p.step_pitch;
  return r;
}

void expect_taps_staged(const ChannelwisePlan& p, const ChannelwiseTile& tile, const Result& r) {
  const ChannelwiseRun h = p.h.run[r.row % p.h.phases], w = p.w.run[r.column % p.w.phases];
  if (h.taps > 0) {
    ASSERT_EQ(tile.source_row + r.stage_row * p.h.tap_spacing, h.source + r.row / p.h.phases * p.h.period_source);
  }
  ASSERT_EQ(tile.source_column + r.stage_column, w.source + r.column / p.w.phases * p.w.period_source);
  ASSERT_GE(r.stage_row, 0);
  ASSERT_GE(r.stage_column, 0);
  ASSERT_LT(r.stage_row + std::max(p.taps_h, h.taps) - 1, p.stage_rows);
  ASSERT_LT(r.stage_column + (std::max(p.taps_w, w.taps) - 1) * p.w.tap_spacing, p.stage_columns);
}

/// Each result of one unit's planes, counted.
void replay(const ChannelwisePlan& p) {
  std::vector<int> seen(static_cast<std::size_t>(p.h.result) * static_cast<std::size_t>(p.w.result));
  for (std::int32_t index = 0; index < p.plane_tiles(); ++index) {
    const ChannelwiseTile tile = cuda::channelwise_tile(p, index);
    ASSERT_EQ(tile.unit, 0);
    for (std::int32_t phase = 0; phase < p.h.phases; ++phase) {
      for (std::int32_t step = 0; step < p.chunks * cuda::kChannelwiseWalk; ++step) {
        for (std::int32_t lane = 0; lane < p.lanes; ++lane) {
          const Result r = result_at(p, tile, phase, lane, step);
          if (r.row >= p.h.result || r.column >= p.w.result) continue;
          expect_taps_staged(p, tile, r);
          if (::testing::Test::HasFatalFailure()) return;
          ++seen[static_cast<std::size_t>(r.row) * static_cast<std::size_t>(p.w.result) +
                 static_cast<std::size_t>(r.column)];
        }
      }
    }
  }
  for (const int count : seen) ASSERT_EQ(count, 1);
}

void expect_places_distinct(const ChannelwisePlan& p) {
  EXPECT_GE(p.pitch, p.stage_columns + p.vector - 1) << "rows share a vector";
  EXPECT_GE(p.plane_pitch, p.stage_rows * p.pitch);
  EXPECT_GE(p.unit_pitch, p.stage_channels * p.plane_pitch);
  EXPECT_EQ((p.pitch - p.h.tap_spacing * p.w.source) % p.vector, 0) << "rows are not aligned like the source's";
  EXPECT_EQ((p.plane_pitch - p.h.source * p.w.source) % p.vector, 0);
  EXPECT_EQ((p.unit_pitch - p.unit_stride) % p.vector, 0);
  EXPECT_LE(p.lanes * p.lines, p.threads);
  EXPECT_LE(p.threads, cuda::kChannelwiseThreads);
}

TEST(ChannelwisePlan, EveryResultBelongsToOneStepWhoseTapsAreStaged) {
  int planned = 0;
  for (const ConvCase& c : planar_conv_cases()) {
    SCOPED_TRACE(c);
    for (const bool transposed : {false, true}) {
      for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kBFloat16}) {
        ChannelwisePlan plan;
        if (!cuda::plan_channelwise(geometry(c), transposed, arithmetic, plan)) continue;
        ++planned;
        EXPECT_LE(plan.smem_bytes(), cuda::kChannelwiseSmemBytes);
        expect_places_distinct(plan);
        replay(plan);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(planned, 700);
}

TEST(ChannelwisePlan, SplitsOfTheWeightCoverItsTilesOnce) {
  for (const ConvCase& c : planar_conv_cases()) {
    SCOPED_TRACE(c);
    cuda::ChannelwiseWeightPlan plan;
    if (!cuda::plan_channelwise_weight(geometry(c), Arithmetic::kTF32, plan)) continue;
    EXPECT_LE(plan.smem_bytes(), cuda::kChannelwiseSmemBytes);
    EXPECT_GE(plan.splits * plan.tiles_per_split, plan.walk.tiles());
    EXPECT_LT((plan.splits - 1) * plan.tiles_per_split, plan.walk.tiles()) << "a split without tiles";
    EXPECT_GE(plan.tap_row_blocks * plan.walk.taps_h, c.kernel.h);
    EXPECT_GE(plan.tap_column_blocks * plan.walk.taps_w, c.kernel.w);
    expect_places_distinct(plan.walk);
    replay(plan.walk);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(ChannelwisePlan, StaysBelowTheSharedMemoryThatNeedNotBeAskedFor) {
  std::int64_t most = 0, most_weight = 0;
  for (std::int64_t width = 1; width <= 600; ++width) {
    for (const std::int64_t stride : {1, 2, 5}) {
      const ConvGeometry g = geometry({.input = {20, width}, .kernel = {7, 7}, .stride = {stride, stride}});
      for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kBFloat16}) {
        ChannelwisePlan plan;
        ASSERT_TRUE(cuda::plan_channelwise(g, false, arithmetic, plan));
        most = std::max(most, plan.smem_bytes());
        cuda::ChannelwiseWeightPlan weight;
        ASSERT_TRUE(cuda::plan_channelwise_weight(g, arithmetic, weight));
        most_weight = std::max(most_weight, weight.smem_bytes());
      }
    }
  }
  for (const std::int64_t bytes : {most, most_weight}) {
    EXPECT_LE(bytes, cuda::kChannelwiseSmemBytes);
    EXPECT_GT(bytes, cuda::kChannelwiseSmemBytes - 1024) << "these widths do not try the limit";
  }
}

// Two phases of a stride of two, one of which has taps, and a result of one column, of the other phase.
TEST(ChannelwisePlan, LeavesResultsThatNoTapReachesToOthers) {
  const ConvCase c{.batch = 3,
                   .input = {1, 3},
                   .kernel = {1, 4},
                   .stride = {1, 2},
                   .padding = {0, 17},
                   .output_padding = {0, 6},
                   .dilation = {1, 8}};
  ChannelwisePlan plan;
  EXPECT_FALSE(cuda::plan_channelwise(geometry(c), true, Arithmetic::kTF32, plan));
}

TEST(ChannelwisePlan, LeavesLongStridesToOthers) {
  ChannelwisePlan plan;
  EXPECT_FALSE(cuda::plan_channelwise(geometry({.input = {40, 40}, .kernel = {20, 20}, .stride = {17, 17}}), true,
                                      Arithmetic::kTF32, plan));
}

// By processor time, for others share the machine: a plan of these took 20 to 60 ms once.
TEST(ChannelwisePlan, OfTheLongestLinesIsMadeAtOnce) {
  constexpr std::int64_t kLength = 200'000'000;
  constexpr int kPlans = 100;
  const std::clock_t begin = std::clock();
  for (const std::int64_t kernel : {130, 904}) {
    const ConvGeometry g{.rank = 1,
                         .image_channels = 10,
                         .feature_channels = 1,
                         .image = {1, kLength},
                         .feature = {1, kLength - kernel + 1},
                         .kernel = {1, kernel}};
    for (int i = 0; i < kPlans; ++i) {
      ChannelwisePlan plan;
      ASSERT_TRUE(cuda::plan_channelwise(g, false, Arithmetic::kBFloat16, plan));
    }
  }
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 0.005 * 2 * kPlans);
}

// Of 2^28 elements.
TEST(ChannelwisePlan, LeavesLargePlanesToOthers) {
  constexpr std::int64_t kSide = 1 << 14;
  ChannelwisePlan plan;
  const auto takes = [&](const Extent2& feature, std::int64_t kernel) {
    return cuda::plan_channelwise(geometry({.input = feature, .kernel = {kernel, kernel}}), false, Arithmetic::kTF32,
                                  plan);
  };
  EXPECT_TRUE(takes({kSide - 2, kSide - 3}, 3));
  EXPECT_FALSE(takes({kSide - 2, kSide - 2}, 3)) << "the image alone";
  EXPECT_TRUE(takes({kSide, kSide - 1}, 1));
  EXPECT_FALSE(takes({kSide, kSide}, 1));
}

}  // namespace
}  // namespace adjoint::testing

// The plans of conv_weight in the pipeline, without a GPU: the cuts cover the whole problem, memory limits are kept,
// and some geometries are refused.
#include <adjoint/ops/conv/pipeline/weight_plan.h>

#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/tests/ops/conv/pipeline/cases.h>
#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace adjoint::testing {
namespace {

using cuda::Arithmetic;
using cuda::PipelineWeightPlan;

cuda::PipelineGeometry geometry_of(const ConvCase& c) { return cuda::pipeline_geometry(geometry(c), false); }

/// In halves and in TF32.
std::vector<PipelineWeightPlan> plans_of(const ConvCase& c, const cuda::Machine& machine = {}) {
  std::vector<PipelineWeightPlan> plans;
  for (const Arithmetic arithmetic : {Arithmetic::kBFloat16, Arithmetic::kTF32}) {
    for (double clocks = cuda::PlansAbove::kAnew;;) {
      const cuda::PlansAbove above(clocks);
      PipelineWeightPlan plan;
      if (!cuda::plan_pipeline_weight(geometry_of(c), arithmetic, machine, plan)) break;
      clocks = cuda::pipeline_weight_clocks(plan, machine);
      plans.push_back(plan);
    }
  }
  return plans;
}

TEST(PipelineWeightPlan, CutsTapsChannelsAndStripsWhole) {
  const cuda::Machine few{.multiprocessors = 4};
  for (const ConvCase& c : kPipelineCases) {
    SCOPED_TRACE(c);
    for (const PipelineWeightPlan& plan : plans_of(c, few)) {
      std::multiset<int> taps;
      for (std::uint32_t i = 0; i < plan.sets_divider.divisor(); ++i) {
        const int count = plan.team_taps * (plan.shares_taps ? 1 : plan.teams);
        for (int tap = 0; tap < count; ++tap) {
          const cuda::WeightSetTap& each = plan.set_list[i].taps[tap];
          if (each.filter >= 0) taps.insert(each.filter);
          // A team that shares rows reads them for all taps that it may have.
          const bool reads_all = plan.shares_rows && tap % plan.team_taps == 0;
          const std::int64_t rows = plan.step_depth() / cuda::kPipelineStrip + (reads_all ? cuda::kRowTaps - 1 : 0);
          const std::int64_t last = each.shift + (plan.step_rows[cuda::kWeightSteps - 1] + rows) * plan.box_extents[3];
          EXPECT_LE(last - (plan.box_extents[3] - cuda::kPipelineStrip), plan.box_copy_bytes() / 128);
        }
      }
      std::multiset<int> all;
      for (int tap = 0; tap < plan.taps; ++tap) all.insert(tap);
      EXPECT_EQ(taps, all);
      // Each job, by its set and first channels, has every strip once.
      std::map<std::tuple<int, int, int>, std::multiset<int>> strips;
      for (int index = 0; index < plan.tiles; ++index) {
        const cuda::PipelineWeightTile tile = cuda::pipeline_weight_tile(plan, index);
        ASSERT_LT(tile.strip, tile.end);
        for (int strip = tile.strip; strip < tile.end; ++strip) {
          strips[{tile.set, tile.feature, tile.image}].insert(strip);
        }
      }
      std::multiset<int> whole;
      std::set<std::tuple<int, int, int, int>> starts;
      for (int strip = 0; strip < plan.strips; ++strip) {
        whole.insert(strip);
        const cuda::PipelineWeightStrip at = cuda::pipeline_weight_strip(plan, strip);
        for (std::size_t axis = 0; axis < 4; ++axis) EXPECT_LT(at.at[axis], plan.feature.extents[axis]);
        starts.emplace(at.at[0], at.at[1], at.at[2], at.at[3]);
      }
      EXPECT_EQ(starts.size(), static_cast<std::size_t>(plan.strips));
      for (const auto& [job, of_job] : strips) EXPECT_EQ(of_job, whole);
      EXPECT_EQ(static_cast<std::int64_t>(strips.size()) * plan.slices, plan.tiles);
    }
  }
}

TEST(PipelineWeightPlan, FitsSharedMemory) {
  for (const std::int64_t channels : {8, 64, 192, 512}) {
    for (const std::int64_t kernel : {1, 2, 3, 5, 7}) {
      const ConvCase c{.batch = 2,
                       .in_channels = channels,
                       .out_channels = 512 / kernel / 8 * 8,
                       .input = {40, 60},
                       .kernel = {kernel, kernel}};
      SCOPED_TRACE(c);
      const std::vector<PipelineWeightPlan> plans = plans_of(c);
      EXPECT_FALSE(plans.empty());
      for (const PipelineWeightPlan& plan : plans) {
        EXPECT_GE(plan.slots, 2);
        EXPECT_LE(plan.smem_bytes(), cuda::Machine{}.smem_bytes);
        EXPECT_LE(plan.box_copy_bytes(), plan.box_bytes());
        EXPECT_EQ(plan.gather.slices, plan.slices);
      }
    }
  }
}

TEST(PipelineWeightPlan, RefusesTheRest) {
  const auto is_planned = [](const ConvCase& c, Arithmetic arithmetic = Arithmetic::kFloat16) {
    PipelineWeightPlan plan;
    return cuda::plan_pipeline_weight(geometry_of(c), arithmetic, {}, plan);
  };
  const ConvCase plain{.in_channels = 16, .out_channels = 16, .input = {20, 20}, .kernel = {3, 3}};
  EXPECT_TRUE(is_planned(plain));
  EXPECT_TRUE(is_planned(plain, Arithmetic::kTF32));
  EXPECT_FALSE(is_planned(plain, Arithmetic::kFloat32));
  ConvCase odd = plain;
  odd.in_channels = 12;
  EXPECT_TRUE(is_planned(odd, Arithmetic::kTF32));
  EXPECT_FALSE(is_planned(odd)) << "channels that do not fill 16 bytes";
  ConvCase wide = plain;
  wide.input = {600, 600};
  wide.dilation = {130, 130};
  EXPECT_TRUE(is_planned(wide)) << "taps that no box holds together are jobs of their own";
  ConvCase large = plain;
  large.input = {40, 40};
  large.kernel = {12, 12};
  EXPECT_FALSE(is_planned(large)) << "too many taps";
  PipelineWeightPlan plan;
  EXPECT_FALSE(
      cuda::plan_pipeline_weight(cuda::pipeline_geometry(geometry(plain), true), Arithmetic::kFloat16, {}, plan));
}

}  // namespace
}  // namespace adjoint::testing

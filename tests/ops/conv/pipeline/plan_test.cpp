// The pipeline's plans, without a GPU: taps against the definition, refused geometries, memory limits, chosen tiles.
#include <adjoint/ops/conv/pipeline/plan.h>

#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace adjoint::testing {
namespace {

using cuda::Arithmetic;
using cuda::Extent3;
using cuda::PipelineGeometry;
using cuda::PipelinePlan;

Extent3 places_of(const cuda::PipelineTensor& tensor, int phase) {
  return {phase / (tensor.step[1] * tensor.step[2]), phase / tensor.step[2] % tensor.step[1], phase % tensor.step[2]};
}

/// Every pair (source position, tap) that each result's position meets by the plan's tiles, boxes and taps.
std::map<Extent3, std::set<std::pair<Extent3, int>>> met_by(const PipelinePlan& plan) {
  std::map<Extent3, std::set<std::pair<Extent3, int>>> met;
  for (int index = 0; index < plan.tiles; ++index) {
    for (int team = 0; team < cuda::kPipelineTeams; ++team) {
      const cuda::PipelineTile tile = cuda::pipeline_tile(plan, index, team);
      if (tile.sample != 0 || tile.result != 0) continue;
      const Extent3 results = places_of(plan.result, tile.phase);
      for (int position = 0; position < plan.columns; ++position) {
        const std::int64_t q[] = {tile.at[0], tile.at[1] + position / 8, tile.at[2] + position % 8};
        Extent3 result, source;
        bool inside = true;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          result[axis] = q[axis] * plan.result.step[axis] + results[axis];
          inside = inside && result[axis] < plan.result.extents[axis];
        }
        if (!inside) continue;
        EXPECT_TRUE(met.try_emplace(result).second) << "a position is computed twice";
        const int row = (position / 8) * plan.box_extents[2] + position % 8 +
                        (plan.shares_filter ? team * cuda::kPipelineStrip : 0);
        for (int b = 0; b < plan.boxes; ++b) {
          const cuda::PipelineBox& box = plan.box_list[b];
          const Extent3 sources = places_of(plan.source, box.phase);
          const int origin = tile.at[2] - (plan.shares_filter ? team * cuda::kPipelineStrip : 0);
          for (int t = plan.first_tap[tile.phase][b]; t < plan.first_tap[tile.phase][b + 1]; ++t) {
            const int at = row + plan.tap_list[t].shift, width = plan.box_extents[2], height = plan.box_extents[1];
            EXPECT_LT(at, width * height * plan.box_extents[0]);
            const std::int64_t p[] = {tile.at[0] + box.first[0] + at / (width * height),
                                      tile.at[1] + box.first[1] + at / width % height,
                                      origin + box.first[2] + at % width};
            inside = true;
            for (std::size_t axis = 0; axis < 3; ++axis) {
              source[axis] = p[axis] * plan.source.step[axis] + sources[axis];
              inside = inside && source[axis] >= 0 && source[axis] < plan.source.extents[axis];
            }
            if (!inside) continue;
            EXPECT_TRUE(met[result].emplace(source, plan.tap_list[t].filter).second) << "a tap comes twice";
          }
        }
      }
    }
  }
  return met;
}

std::map<Extent3, std::set<std::pair<Extent3, int>>> met_by_definition(const PipelineGeometry& g) {
  std::map<Extent3, std::set<std::pair<Extent3, int>>> met;
  const auto for_each = [](const Extent3& extents, const auto& body) {
    for (std::int64_t i = 0; i < extents[0] * extents[1] * extents[2]; ++i) {
      body(Extent3{i / (extents[1] * extents[2]), i / extents[2] % extents[1], i % extents[2]});
    }
  };
  for_each(g.result, [&](const Extent3& result) { met[result]; });
  const Extent3 &features = g.transposed ? g.source : g.result, &images = g.transposed ? g.result : g.source;
  for_each(features, [&](const Extent3& feature) {
    for_each(g.kernel, [&](const Extent3& tap) {
      Extent3 image;
      bool inside = true;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        image[axis] = feature[axis] * g.stride[axis] - g.padding[axis] + tap[axis] * g.dilation[axis];
        inside = inside && image[axis] >= 0 && image[axis] < images[axis];
      }
      const auto place = static_cast<int>((tap[0] * g.kernel[1] + tap[1]) * g.kernel[2] + tap[2]);
      if (inside) met[g.transposed ? image : feature].emplace(g.transposed ? feature : image, place);
    });
  });
  return met;
}

TEST(PipelinePlan, TapsAreThoseOfTheDefinition) {
  int planned = 0;
  for (ConvCase c : conv_cases()) {
    c.in_channels = c.out_channels = 8;
    c.groups = 1;
    for (const bool transposed : {false, true}) {
      const PipelineGeometry g = cuda::pipeline_geometry(geometry(c), transposed);
      for (const Arithmetic arithmetic : {Arithmetic::kBFloat16, Arithmetic::kTF32}) {
        PipelinePlan plan;
        if (!cuda::plan_pipeline(g, arithmetic, {}, plan)) continue;
        ++planned;
        EXPECT_TRUE(met_by(plan) == met_by_definition(g)) << c << (transposed ? " transposed" : "");
      }
    }
  }
  EXPECT_GT(planned, 400);
}

PipelineGeometry square(std::int64_t channels, std::int64_t results, std::int64_t extent, std::int64_t batch = 4) {
  return cuda::pipeline_geometry(geometry({.batch = batch,
                                           .in_channels = results,
                                           .out_channels = channels,
                                           .input = {extent, extent},
                                           .kernel = {3, 3},
                                           .padding = {1, 1}}),
                                 false);
}

TEST(PipelinePlan, FitsSharedMemory) {
  for (const std::int64_t channels : {8, 64, 128, 320}) {
    for (const std::int64_t results : {8, 64, 128, 320}) {
      for (const Arithmetic arithmetic : {Arithmetic::kBFloat16, Arithmetic::kFloat16, Arithmetic::kTF32}) {
        PipelinePlan plan;
        const cuda::Machine machine;
        ASSERT_TRUE(cuda::plan_pipeline(square(channels, results, 100), arithmetic, machine, plan));
        EXPECT_LE(plan.smem_bytes(), machine.smem_bytes);
        EXPECT_GE(plan.box_slots, 2);
        EXPECT_GE(plan.filter_slots, 4);
        EXPECT_LE(plan.filter_slots, cuda::kMostPipelineFilterSlots);
        EXPECT_LT(plan.lead, plan.first_tap[0][1] + 1);
      }
    }
  }
}

// The first warpgroup must not wait for a slot that the second one, which waits for it, has to free.
TEST(PipelinePlan, TheLeadIsWithinOneBoxAndTheFiltersRing) {
  for (const ConvCase& c : conv_cases()) {
    for (const bool transposed : {false, true}) {
      PipelineGeometry g = cuda::pipeline_geometry(geometry(c), transposed);
      g.source_channels = g.result_channels = 256;
      PipelinePlan plan;
      if (!cuda::plan_pipeline(g, Arithmetic::kBFloat16, {}, plan)) continue;
      for (int phase = 0; phase < plan.result.phases(); ++phase) {
        EXPECT_LE(plan.lead, plan.first_tap[phase][1] - plan.first_tap[phase][0]);
      }
      EXPECT_TRUE(!plan.shares_filter || plan.lead < plan.filter_slots);
    }
  }
}

TEST(PipelinePlan, RefusesWhatItCannotRead) {
  PipelinePlan plan;
  EXPECT_FALSE(cuda::plan_pipeline(square(12, 64, 20), Arithmetic::kBFloat16, {}, plan));  // 24 bytes
  EXPECT_FALSE(cuda::plan_pipeline(square(64, 12, 20), Arithmetic::kBFloat16, {}, plan));
  EXPECT_TRUE(cuda::plan_pipeline(square(12, 12, 20), Arithmetic::kTF32, {}, plan));
  EXPECT_FALSE(cuda::plan_pipeline(square(64, 64, 20), Arithmetic::kFloat32, {}, plan));
  PipelineGeometry g = square(64, 64, 200);
  g.dilation = {1, 40, 40};
  g.padding = {0, 40, 40};
  EXPECT_FALSE(cuda::plan_pipeline(g, Arithmetic::kBFloat16, {}, plan));  // 88 x 88 positions, twice
  g = square(64, 64, 20);
  g.batch = 0;
  EXPECT_FALSE(cuda::plan_pipeline(g, Arithmetic::kBFloat16, {}, plan));
  g = cuda::pipeline_geometry(geometry({.in_channels = 64, .out_channels = 64, .input = {8, 8}, .stride = {2, 2}}),
                              true);
  EXPECT_FALSE(cuda::plan_pipeline(g, Arithmetic::kBFloat16, {}, plan));  // three of four phases have no taps
}

TEST(PipelinePlan, FewPositionsHaveSmallTiles) {
  PipelinePlan plan;
  ASSERT_TRUE(cuda::plan_pipeline(square(256, 256, 128), Arithmetic::kBFloat16, {}, plan));
  EXPECT_EQ(plan.columns, 128);
  EXPECT_FALSE(plan.shares_filter);
  ASSERT_TRUE(cuda::plan_pipeline(square(64, 64, 512), Arithmetic::kBFloat16, {}, plan));
  EXPECT_EQ(plan.columns, 128);
  EXPECT_TRUE(plan.shares_filter);  // for there are no results for two
  ASSERT_TRUE(cuda::plan_pipeline(square(256, 256, 14, 16), Arithmetic::kBFloat16, {}, plan));
  EXPECT_EQ(plan.columns, 64);
}

}  // namespace
}  // namespace adjoint::testing

// The pipeline's plans, without a GPU: taps against the definition, refused geometries, memory limits, chosen tiles.
#include <adjoint/ops/conv/pipeline/plan.h>

#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace adjoint::testing {
namespace {

using cuda::Arithmetic;
using cuda::PipelineAxes;
using cuda::PipelineGeometry;
using cuda::PipelinePlan;

PipelineAxes places_of(const cuda::PipelineTensor& tensor, std::int64_t phase) {
  PipelineAxes places{};
  for (std::size_t axis = 4; axis-- > 0; phase /= tensor.step[axis]) places[axis] = phase % tensor.step[axis];
  return places;
}

std::int64_t place_of(const PipelineAxes& position, const PipelineAxes& pitch) {
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) place += position[axis] * pitch[axis];
  return place;
}

/// The place in memory of a phase's position; -1 outside the tensor.
std::int64_t place_in(const cuda::PipelineTensor& tensor, std::int64_t phase, PipelineAxes position) {
  const PipelineAxes places = places_of(tensor, phase);
  for (std::size_t axis = 0; axis < 4; ++axis) {
    position[axis] = position[axis] * tensor.step[axis] + places[axis];
    if (position[axis] < 0 || position[axis] >= tensor.extents[axis]) return -1;
  }
  return place_of(position, tensor.pitch);
}

/// For each place of the result, the pairs of a place of the source and a tap that it meets.
using Met = std::map<std::int64_t, std::set<std::pair<std::int64_t, int>>>;

/// By the plan's tiles, boxes and taps.
Met met_by(const PipelinePlan& plan) {
  Met met;
  for (int index = 0; index < plan.tiles; ++index) {
    for (int team = 0; team < cuda::kPipelineTeams; ++team) {
      const cuda::PipelineTile tile = cuda::pipeline_tile(plan, index, team);
      if (tile.result != 0) continue;
      const int beside = plan.shares_filter ? team * cuda::kPipelineStrip : 0;
      for (int position = 0; position < plan.columns; ++position) {
        const std::int64_t result =
            place_in(plan.result, tile.phase,
                     {tile.at[0], tile.at[1], tile.at[2] + position / 8, tile.at[3] + position % 8});
        if (result < 0) continue;
        EXPECT_TRUE(met.try_emplace(result).second) << "a position is computed twice";
        const int row = (position / 8) * plan.box_width + position % 8 + beside;
        for (int b = 0; b < plan.boxes; ++b) {
          const cuda::PipelineBox& box = plan.box_list[b];
          if (plan.skips && !cuda::pipeline_reads(plan, tile, b)) continue;
          for (int t = plan.first_tap[tile.phase][b]; t < plan.first_tap[tile.phase][b + 1]; ++t) {
            const int place = row + plan.tap_list[t].shift;
            EXPECT_LT(place, plan.box_rows * plan.box_width) << "a tap reads behind the box";
            const PipelineAxes at{tile.at[0] + box.first[0], tile.at[1] + box.first[1],
                                  tile.at[2] + box.first[2] + place / plan.box_width,
                                  tile.at[3] + box.first[3] + place % plan.box_width - beside};
            const std::int64_t source = place_in(plan.source, box.phase, at);
            if (source < 0) continue;
            EXPECT_TRUE(met[result].emplace(source, plan.tap_list[t].filter).second) << "a tap comes twice";
          }
        }
      }
    }
  }
  return met;
}

Met met_by_definition(const PipelineGeometry& g) {
  Met met;
  const auto for_each = [](const PipelineAxes& extents, const auto& body) {
    for (std::int64_t i = 0; i < extents[0] * extents[1] * extents[2] * extents[3]; ++i) {
      PipelineAxes at{};
      std::int64_t rest = i;
      for (std::size_t axis = 4; axis-- > 0; rest /= extents[axis]) at[axis] = rest % extents[axis];
      body(at);
    }
  };
  for_each(g.result, [&](const PipelineAxes& result) { met[place_of(result, g.result_pitch)]; });
  const PipelineAxes &features = g.transposed ? g.source : g.result, &images = g.transposed ? g.result : g.source;
  for_each(features, [&](const PipelineAxes& feature) {
    for_each(g.kernel, [&](const PipelineAxes& tap) {
      PipelineAxes image{};
      for (std::size_t axis = 0; axis < 4; ++axis) {
        image[axis] = feature[axis] * g.stride[axis] - g.padding[axis] + tap[axis] * g.dilation[axis];
        if (image[axis] < 0 || image[axis] >= images[axis]) return;
      }
      const std::int64_t result = place_of(g.transposed ? image : feature, g.result_pitch),
                         source = place_of(g.transposed ? feature : image, g.source_pitch);
      met[result].emplace(source, static_cast<int>(place_of(tap, g.kernel_pitch)));
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
TEST(PipelinePlan, TheLeadIsWithinTheRings) {
  for (const ConvCase& c : conv_cases()) {
    for (const bool transposed : {false, true}) {
      PipelineGeometry g = cuda::pipeline_geometry(geometry(c), transposed);
      g.source_channels = g.result_channels = 256;
      PipelinePlan plan;
      if (!cuda::plan_pipeline(g, Arithmetic::kBFloat16, {}, plan)) continue;
      for (int phase = 0; phase < plan.result.phases(); ++phase) {
        int held = 0;
        for (int i = 0; i < std::min(plan.box_slots, plan.boxes * plan.chunks); ++i) {
          held += cuda::pipeline_taps(plan, phase, i % plan.boxes);
        }
        EXPECT_LE(plan.lead, held);
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
  g.dilation = {1, 1, 40, 40};
  g.padding = {0, 0, 40, 40};
  EXPECT_FALSE(cuda::plan_pipeline(g, Arithmetic::kBFloat16, {}, plan));  // 88 x 88 positions, twice
  g = square(64, 64, 20);
  g.source[0] = g.result[0] = 0;
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

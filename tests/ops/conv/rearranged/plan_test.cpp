// Other orders of operands, without a GPU.
#include <adjoint/ops/conv/layouts/orders.h>
#include <adjoint/tests/support/conv_geometries.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::cuda {
namespace {

using adjoint::testing::make_geometry;

TEST(RearrangedPlan, OddRowsOfImagesArePaddedForConv) {
  RearrangedPlan plan;
  const ConvGeometry planes = make_geometry(512, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1});
  ASSERT_TRUE(pad_image_rows(planes, 2, plan));
  EXPECT_EQ(plan.geometry.image, (Extent2{129, 136}));
  EXPECT_EQ(plan.geometry.feature, planes.feature);
  EXPECT_EQ(plan.image.numel(), std::int64_t{512} * 128 * 129 * 136);
  EXPECT_EQ(plan.feature.planes, 0);
  EXPECT_EQ(plan.filter.planes, 0);
  const ConvGeometry aligned = make_geometry(128, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0});
  EXPECT_FALSE(pad_image_rows(aligned, 2, plan)) << "rows are whole vectors";
  EXPECT_FALSE(pad_image_rows(make_geometry(0, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}), 2, plan))
      << "an empty batch";
}

TEST(RearrangedPlan, StridesBecomeChannels) {
  RearrangedPlan plan;
  ASSERT_TRUE(plan_strides_as_channels(make_geometry(16, 1, 56, 1, {256, 256}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2}),
                                       false, 2, plan));
  EXPECT_EQ(plan.geometry.image_channels, 9);
  EXPECT_EQ(plan.geometry.kernel, (Extent2{3, 3}));
  EXPECT_EQ(plan.geometry.stride, (Extent2{1, 1}));
  EXPECT_EQ(plan.bias_repetitions, 9);
}

// conv_weight of one is zeros, which some kernel writes: a copy of nothing would be no launch.
TEST(RearrangedPlan, AnEmptyBatchHasNoOtherOrder) {
  const ConvGeometry strided = make_geometry(0, 1, 56, 1, {256, 255}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2});
  const ConvGeometry odd = make_geometry(0, 8, 8, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0});
  for (const std::int64_t size : {2, 4}) {
    RearrangedPlan plan;
    EXPECT_FALSE(plan_strides_as_channels(strided, false, size, plan));
    EXPECT_FALSE(plan_batch_as_columns(odd, size, plan));
    EXPECT_FALSE(pad_image_rows(odd, size, plan));
    plan = {.geometry = odd};
    EXPECT_FALSE(pad_rows(odd, size, plan));
  }
}

// To whole vectors; below a line of 128 bytes, to a part of one; to a whole line if that is at most twice as long, or
// four times if rows are no vector.
TEST(RearrangedPlan, ShortRowsArePaddedToPartsOfALine) {
  struct Case {
    Extents feature, halves, words;
  };
  for (const Case& c : {
           Case{{7, 5}, {8, 8}, {7, 8}},
           Case{{5, 4}, {8, 8}, {8, 4}},
           Case{{2, 3}, {2, 8}, {2, 4}},
           Case{{4, 8}, {8, 8}, {4, 8}},
           Case{{3, 6}, {8, 8}, {4, 8}},
           Case{{3, 20}, {3, 32}, {3, 32}},
           Case{{20, 5}, {20, 8}, {20, 8}},
           Case{{1, 5}, {1, 8}, {1, 8}},
           Case{{1, 30}, {1, 32}, {1, 32}},
           Case{{1, 33}, {1, 64}, {1, 36}},
           Case{{1, 40}, {1, 64}, {1, 40}},
           Case{{4, 777}, {4, 784}, {4, 780}},
       }) {
    // One tap pads the image alike; three leave it at whole vectors.
    for (const std::int64_t taps : {1, 3}) {
      const ConvGeometry g = make_geometry(2, 6, 5, 1, c.feature, {1, taps}, {1, 1}, {0, taps / 2}, {1, 1}, {0, 0});
      for (const std::int64_t bytes : {2, 4}) {
        const Extents to = bytes == 2 ? c.halves : c.words;
        const std::int64_t vector = 16 / bytes, vectors = (c.feature.w + vector - 1) / vector * vector;
        RearrangedPlan plan{.geometry = g};
        const bool moves = pad_rows(g, bytes, plan);
        EXPECT_EQ(plan.geometry.feature, to) << c.feature.h << " x " << c.feature.w << ", " << bytes;
        EXPECT_EQ(plan.geometry.image, taps == 1 ? to : (Extents{c.feature.h, vectors}));
        EXPECT_EQ(moves, to != c.feature || vectors != c.feature.w);
        EXPECT_EQ(plan.feature.planes != 0, to != c.feature);
      }
    }
  }
}

TEST(RearrangedPlan, OnlyStridesBecomeChannels) {
  const auto takes = [](const Extent2& stride, const Extent2& dilation) {
    RearrangedPlan plan;
    return plan_strides_as_channels(make_geometry(2, 3, 5, 1, {9, 9}, {3, 3}, stride, {0, 0}, dilation, {0, 0}), false,
                                    2, plan);
  };
  EXPECT_FALSE(takes({1, 1}, {1, 1}));
  EXPECT_TRUE(takes({2, 1}, {1, 1}));
  EXPECT_TRUE(takes({2, 1}, {1, 2})) << "an axis of stride 1 may have a dilation";
  EXPECT_FALSE(takes({2, 1}, {2, 1}));
}

// Several planes a tile only if they are taken apart by vectors.
TEST(RearrangedPlan, TilesOfResultsOrOfSingleElementsHaveOnePlane) {
  const auto tile_planes = [](std::int64_t width, bool image_is_result) {
    const ConvGeometry g = make_geometry(4096, 1, 5, 1, {width, width}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0});
    RearrangedPlan plan;
    EXPECT_TRUE(plan_strides_as_channels(g, image_is_result, 2, plan));
    EXPECT_EQ(plan.image.vector, width % 8 == 0 ? 8 : 1);
    EXPECT_TRUE(plan.image.has_whole_planes());
    return plan.image.tile_planes;
  };
  EXPECT_EQ(tile_planes(16, false), 4);
  EXPECT_EQ(tile_planes(16, true), 1);
  EXPECT_EQ(tile_planes(15, false), 1);
}

// Planes of one row: positions are rows then, and keep their stride and dilation; samples are columns.
TEST(RearrangedPlan, SamplesOfRowsAreColumns) {
  RearrangedPlan plan;
  ASSERT_TRUE(
      plan_batch_as_columns(make_geometry(7, 3, 5, 1, {1, 17}, {1, 3}, {1, 4}, {0, 1}, {1, 2}, {0, 0}), 2, plan));
  const ConvGeometry& g = plan.geometry;
  EXPECT_EQ(g.batch, 1);
  EXPECT_EQ(g.image, (Extent2{67, 8}));
  EXPECT_EQ(g.feature, (Extent2{17, 8}));
  EXPECT_EQ(g.kernel, (Extent2{3, 1}));
  EXPECT_EQ(g.stride, (Extent2{4, 1}));
  EXPECT_EQ(g.padding, (Extent2{1, 0}));
  EXPECT_EQ(g.dilation, (Extent2{2, 1}));
}

/// The number of moves of each element by the tiles: [channel][position][sample].
std::vector<int> times_moved(const SamplesLast& s) {
  std::vector<int> times(static_cast<std::size_t>(s.numel()));
  const std::int64_t tile_samples = std::int64_t{1} << s.log2_tile_samples,
                     tile_positions = kSamplesTile / tile_samples;
  for (std::int32_t block = 0; block < s.tiles(); ++block) {
    const SamplesTile tile = samples_tile(s, block);
    for (std::int64_t q = tile.position; q < std::min(tile.position + tile_positions, s.positions()); ++q) {
      for (std::int64_t n = tile.sample; n < std::min(tile.sample + tile_samples, s.padded_samples); ++n)
        ++times[static_cast<std::size_t>((tile.channel * s.positions() + q) * s.padded_samples + n)];
    }
  }
  return times;
}

TEST(RearrangedPlan, TilesPutEachSampleLastOnce) {
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t batch : {1, 7, 16, 33, 64, 100}) {
      for (const std::int64_t element_size : {2, 4}) {
        SCOPED_TRACE(::testing::Message() << "stride " << stride << ", batch " << batch << ", bytes " << element_size);
        RearrangedPlan plan;
        ASSERT_TRUE(plan_batch_as_columns(make_geometry(batch, 3, 5, 1, {17, 9}, {4, 4}, {stride, stride}, {1, 1},
                                                        {1, 1}, {0, 0}),
                                          element_size, plan));
        for (const SamplesLast& move : {plan.image_samples, plan.feature_samples}) {
          const std::vector<int> times = times_moved(move);
          EXPECT_EQ(std::ranges::count(times, 1), move.numel());
        }
      }
    }
  }
}

TEST(RearrangedPlan, TilesOfSmallBatchesAreOfPositions) {
  const auto log2_tile_samples = [](std::int64_t batch) {
    RearrangedPlan plan;
    EXPECT_TRUE(
        plan_batch_as_columns(make_geometry(batch, 3, 5, 1, {17, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}), 2, plan));
    return plan.feature_samples.log2_tile_samples;
  };
  EXPECT_EQ(log2_tile_samples(1), 3);
  EXPECT_EQ(log2_tile_samples(9), 4);
  EXPECT_EQ(log2_tile_samples(32), 5);
  EXPECT_EQ(log2_tile_samples(33), 6);
  EXPECT_EQ(log2_tile_samples(200), 6);
}

}  // namespace
}  // namespace adjoint::cuda

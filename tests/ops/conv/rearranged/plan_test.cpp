// Which order of operands is chosen, without a GPU.
#include <adjoint/ops/conv/choose/orders.h>
#include <adjoint/ops/conv/weight/boxes_plan.h>
#include <adjoint/tests/support/conv_geometries.h>
#include <adjoint/tests/support/conv_layers.h>
#include <adjoint/tests/support/conv_machine.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace adjoint::cuda {
namespace {

using adjoint::testing::make_geometry;

// Halves of rows of an odd length are copied one by one, which takes several times as long; of the kernel that has a
// copy of its own that is larger than it may be, or channels are too few for it.
TEST(RearrangedPlan, LargeImagesOfOddRowsArePaddedForConv) {
  RearrangedPlan plan;
  const ConvGeometry planes = make_geometry(512, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1});
  ASSERT_TRUE(plan_conv_order(planes, false, Arithmetic::kBFloat16, {}, plan));
  EXPECT_EQ(plan.geometry.image, (Extent2{129, 136}));
  EXPECT_EQ(plan.geometry.feature, planes.feature);
  EXPECT_EQ(plan.image.numel(), std::int64_t{512} * 128 * 129 * 136);
  EXPECT_EQ(plan.feature.planes, 0);
  EXPECT_EQ(plan.filter.planes, 0);
  EXPECT_TRUE(plan_conv_order(make_geometry(16, 64, 32, 4, {1, 131072}, {1, 3}, {1, 2}, {0, 1}, {1, 2}, {0, 0}), false,
                              Arithmetic::kBFloat16, {}, plan));
}

// What the variants' tests plan on a GPU.
TEST(RearrangedPlan, AVariantHasAPaddedImage) {
  const auto& cases = testing::conv_tile_cases();
  const auto odd = std::ranges::find(cases, std::string_view("odd_rows"), &testing::ConvCase::name);
  ASSERT_NE(odd, cases.end());
  RearrangedPlan plan;
  ASSERT_TRUE(
      plan_conv_order(testing::geometry(*odd), false, Arithmetic::kBFloat16, testing::kOneMultiprocessor, plan));
  EXPECT_EQ(plan.filter.planes, 0) << "strides are as they were";
}

TEST(RearrangedPlan, ImagesStayAsTheyAreWhereACopyTakesLonger) {
  RearrangedPlan plan;
  const ConvGeometry aligned = make_geometry(128, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0});
  EXPECT_FALSE(plan_conv_order(aligned, false, Arithmetic::kBFloat16, {}, plan)) << "rows are whole vectors";
  EXPECT_FALSE(plan_conv_order(make_geometry(4, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}), false,
                               Arithmetic::kBFloat16, {}, plan))
      << "`blocked` has a copy of its own";
  EXPECT_FALSE(plan_conv_order(make_geometry(16, 128, 64, 1, {512, 512}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}), false,
                               Arithmetic::kBFloat16, {}, plan))
      << "rows begin at words";
  EXPECT_FALSE(plan_conv_order(make_geometry(0, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}), false,
                               Arithmetic::kBFloat16, {}, plan))
      << "an empty batch";
}

// Of few channels and many taps, or of taps that do not overlap on small planes: half of the time by measurement.
TEST(RearrangedPlan, StridesBecomeChannelsWhereModelsCallItSooner) {
  RearrangedPlan plan;
  const ConvGeometry fsrcnn = make_geometry(16, 1, 56, 1, {256, 256}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2});
  ASSERT_TRUE(plan_conv_order(fsrcnn, false, Arithmetic::kBFloat16, {}, plan));
  EXPECT_EQ(plan.geometry.image_channels, 9);
  EXPECT_EQ(plan.geometry.stride, (Extent2{1, 1}));
  const ConvGeometry patches = make_geometry(12, 512, 512, 1, {8, 8}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0});
  EXPECT_TRUE(plan_conv_order(patches, false, Arithmetic::kBFloat16, {}, plan));
  EXPECT_FALSE(plan_conv_order(patches, true, Arithmetic::kBFloat16, {}, plan))
      << "a product's result would be put in order";
  const ConvGeometry flow = make_geometry(8, 2, 597, 1, {56, 128}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0});
  EXPECT_TRUE(plan_conv_order(flow, true, Arithmetic::kFloat32, {}, plan));
  const ConvGeometry dcgan = make_geometry(128, 64, 128, 1, {32, 32}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0});
  for (const bool transposed : {false, true}) {
    EXPECT_FALSE(plan_conv_order(dcgan, transposed, Arithmetic::kBFloat16, {}, plan))
        << "copies take longer than they save";
    EXPECT_FALSE(plan_conv_order(make_geometry(0, 1, 56, 1, {256, 256}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2}),
                                 transposed, Arithmetic::kBFloat16, {}, plan))
        << "an empty batch";
  }
}

// What threads would copy one by one: likewise for conv_weight, at any stride.
TEST(RearrangedPlan, OddRowsOfHalvesArePaddedForConvWeight) {
  const ConvGeometry odd = make_geometry(64, 256, 256, 1, {1, 777}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, {0, 0});
  RearrangedPlan plan;
  ASSERT_TRUE(plan_weight_order(odd, Arithmetic::kBFloat16, {}, plan));
  EXPECT_EQ(plan.geometry.image[1], 784);
  EXPECT_EQ(plan.geometry.feature[1], 784);
  const ConvGeometry strided = make_geometry(16, 64, 32, 1, {1, 131072}, {1, 3}, {1, 2}, {0, 1}, {1, 2}, {0, 0});
  EXPECT_TRUE(plan_weight_order(strided, Arithmetic::kBFloat16, {}, plan));
  EXPECT_FALSE(plan_weight_order(odd, Arithmetic::kTF32, {}, plan)) << "floats are words";
}

// To whole vectors; below a line of 128 bytes to a part of one; to a whole line where that is at most twice as long, or
// four times where rows are no vector.
TEST(RearrangedPlan, ShortRowsArePaddedToPartsOfALine) {
  struct Case {
    Extent2 feature, halves, words;
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
        const Extent2 to = bytes == 2 ? c.halves : c.words;
        const std::int64_t vector = 16 / bytes, vectors = (c.feature[1] + vector - 1) / vector * vector;
        RearrangedPlan plan{.geometry = g};
        const bool moves = pad_rows(g, bytes, plan);
        EXPECT_EQ(plan.geometry.feature, to) << c.feature[0] << " x " << c.feature[1] << ", " << bytes;
        EXPECT_EQ(plan.geometry.image, taps == 1 ? to : (Extent2{c.feature[0], vectors}));
        EXPECT_EQ(moves, to != c.feature || vectors != c.feature[1]);
        EXPECT_EQ(plan.feature.planes != 0, to != c.feature);
      }
    }
  }
}

// What threads would sort, or a copy put in another order, the copy engine brings as it is, though rows of 80 become
// 128.
TEST(RearrangedPlan, HalvesWithAStrideComeInBoxesThoughTheyArePadded) {
  const ConvGeometry g = make_geometry(16, 256, 256, 1, {80, 80}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0});
  WeightPlan boxes, copied;
  ASSERT_TRUE(plan_boxed_weight(g, Arithmetic::kBFloat16, {}, boxes));
  ASSERT_TRUE(plan_wgmma_weight(g, Arithmetic::kBFloat16, {}, copied));
  EXPECT_TRUE(boxes_pay(boxes, copied));
  RearrangedPlan plan;
  EXPECT_FALSE(plan_weight_order(g, Arithmetic::kBFloat16, {}, plan));
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

// Several planes a tile only where they are taken apart by vectors.
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

/// How often the tiles move each element: [channel][position][sample].
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

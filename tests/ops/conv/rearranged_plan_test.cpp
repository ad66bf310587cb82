// Which order of operands is chosen, without a GPU.
#include <adjoint/ops/conv/correlation_clocks.h>
#include <adjoint/ops/conv/rearranged_plan.h>
#include <adjoint/tests/support/conv_geometries.h>
#include <adjoint/tests/support/conv_layers.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace adjoint::cuda {
namespace {

using adjoint::testing::make_geometry;

// Halves of rows of an odd length are copied one by one: a problem of KernelBench took 3.5 times as long as PyTorch.
TEST(RearrangedPlan, LargeImagesOfOddRowsArePaddedForConv) {
  RearrangedPlan plan;
  const ConvGeometry planes = make_geometry(128, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1});
  ASSERT_TRUE(plan_conv_order(planes, plan));
  EXPECT_EQ(plan.geometry.image, (Extent2{129, 136}));
  EXPECT_EQ(plan.geometry.feature, planes.feature);
  EXPECT_EQ(plan.image.numel(), std::int64_t{128} * 128 * 129 * 136);
  EXPECT_EQ(plan.feature.planes, 0);
  EXPECT_EQ(plan.filter.planes, 0);
  EXPECT_TRUE(plan_conv_order(make_geometry(16, 64, 32, 1, {1, 131072}, {1, 3}, {1, 2}, {0, 1}, {1, 2}, {0, 0}), plan));
}

// What the variants' tests plan on a GPU.
TEST(RearrangedPlan, AVariantHasAPaddedImage) {
  const auto& cases = testing::conv_tile_cases();
  const auto odd = std::ranges::find(cases, std::string_view("odd_rows"), &testing::ConvCase::name);
  ASSERT_NE(odd, cases.end());
  const PlanForMultiprocessors plans(1);
  RearrangedPlan plan;
  EXPECT_TRUE(plan_conv_order(testing::geometry(*odd), plan));
}

TEST(RearrangedPlan, ImagesStayAsTheyAreWhereACopyTakesLonger) {
  RearrangedPlan plan;
  const ConvGeometry aligned = make_geometry(128, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0});
  EXPECT_FALSE(plan_conv_order(aligned, plan)) << "rows are whole vectors";
  EXPECT_FALSE(plan_conv_order(make_geometry(4, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}), plan))
      << "`blocked` has a copy of its own";
  EXPECT_FALSE(plan_conv_order(make_geometry(16, 128, 64, 1, {512, 512}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}), plan))
      << "rows begin at words";
  EXPECT_FALSE(plan_conv_order(make_geometry(0, 128, 64, 1, {64, 64}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}), plan))
      << "an empty batch";
}

// What threads would copy one by one: likewise for conv_weight, at any stride.
TEST(RearrangedPlan, OddRowsOfHalvesArePaddedForConvWeight) {
  RearrangedPlan plan;
  const ConvGeometry odd = make_geometry(64, 256, 256, 1, {1, 777}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, {0, 0});
  ASSERT_TRUE(plan_conv_weight_order(odd, 2, false, plan));
  EXPECT_EQ(plan.geometry.image[1], 784);
  EXPECT_EQ(plan.geometry.feature[1], 784);
  EXPECT_TRUE(plan_conv_weight_order(make_geometry(16, 64, 32, 1, {1, 131072}, {1, 3}, {1, 2}, {0, 1}, {1, 2}, {0, 0}),
                                     2, false, plan));
  EXPECT_FALSE(plan_conv_weight_order(odd, 1, false, plan)) << "floats are words";
}

}  // namespace
}  // namespace adjoint::cuda

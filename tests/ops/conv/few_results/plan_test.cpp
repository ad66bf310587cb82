// The schedules of the kernels for few results a position, replayed: every result belongs to one position of the line
// and sums the products in its definition; every value of a filter belongs to one warp's tile; slices share the terms.
#include <adjoint/ops/conv/few_results/plan.h>
#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

using cuda::Arithmetic;

using cuda::FewResultsAxis;
using cuda::FewResultsPlan;
using cuda::FewWeightPlan;

using Product = std::pair<std::int64_t, std::int64_t>;  // source position and tap

std::set<Product> defined_products(const ConvGeometry& g, std::size_t axis, bool transposed, std::int64_t i) {
  std::set<Product> products;
  for (std::int64_t k = 0; k < g.kernel.in_plane(axis); ++k) {
    if (!transposed) {
      products.emplace(image_position(i, k, g.stride.in_plane(axis), g.padding.in_plane(axis),
                                      g.dilation.in_plane(axis)),
                       k);
      continue;
    }
    const std::int64_t distance = i + g.padding.in_plane(axis) - k * g.dilation.in_plane(axis);
    if (distance % g.stride.in_plane(axis) == 0) products.emplace(distance / g.stride.in_plane(axis), k);
  }
  return products;
}

std::set<Product> planned_products(const FewResultsAxis& a, std::int32_t residue, std::int32_t source) {
  std::set<Product> products;
  const cuda::FewResultsRun& run = a.run[residue];
  for (std::int32_t t = 0; t < run.taps; ++t) {
    products.emplace(source + t * a.source_step, run.tap + t * a.tap_step);
  }
  return products;
}

void replay(const ConvGeometry& g, bool transposed, const FewResultsPlan& p) {
  std::set<std::tuple<int, int, int>> seen;
  for (std::int32_t n = 0; n < p.total; ++n) {
    const cuda::FewResultsPlace at = cuda::few_results_place(p, n);
    if (at.row >= p.h.result || at.column >= p.w.result) continue;
    ASSERT_TRUE(seen.emplace(at.sample, at.row, at.column).second);
    ASSERT_EQ(planned_products(p.h, at.residue_h, at.source_row), defined_products(g, 0, transposed, at.row));
    ASSERT_EQ(planned_products(p.w, at.residue_w, at.source_column), defined_products(g, 1, transposed, at.column));
  }
  ASSERT_EQ(static_cast<std::int64_t>(seen.size()), p.batch * std::int64_t{p.h.result} * p.w.result);
  EXPECT_GE(std::int64_t{p.tiles} * p.lanes, p.total);
  EXPECT_GE(p.threads(), 32);
  EXPECT_LE(p.threads(), cuda::kFewThreads);
  EXPECT_GE(p.slices * p.slice_channels, p.source_channels);
  EXPECT_LT((p.slices - 1) * p.slice_channels, p.source_channels) << "a slice without channels";
}

void replay(const ConvGeometry& g, const FewWeightPlan& p) {
  std::vector<int> seen(static_cast<std::size_t>(g.filter_numel()));
  for (std::int32_t index = 0; index < p.tiles(); ++index) {
    const cuda::FewWeightTile tile = cuda::few_weight_tile(p, index);
    ASSERT_EQ(tile.slice, 0);
    for (std::int32_t f = tile.feature_channel; f < tile.feature_channel + p.tile_feature; ++f) {
      for (std::int32_t i = tile.image_channel; i < tile.image_channel + p.tile_image; ++i) {
        for (std::int32_t t = tile.tap; t < tile.tap + p.tile_taps; ++t) {
          if (f >= p.feature_channels || i >= p.image_channels || t >= p.taps) continue;
          const std::int64_t channel = std::int64_t{tile.group} * p.feature_channels + f;
          ++seen[static_cast<std::size_t>((channel * p.image_channels + i) * p.taps + t)];
        }
      }
    }
  }
  for (const int count : seen) ASSERT_EQ(count, 1);
  ASSERT_EQ(cuda::few_weight_tile(p, p.tiles()).slice, 1);
  EXPECT_LE(p.tile_image * p.tile_feature * p.tile_taps, 16);
  EXPECT_EQ(p.slice_positions % 32, 0);
  EXPECT_GE(p.slices * p.slice_positions, p.total);
  EXPECT_LT((p.slices - 1) * p.slice_positions, p.total) << "a slice without positions";
}

TEST(FewResultsPlan, EveryProductOfEveryResultIsMadeOnce) {
  int gathers = 0, weights = 0;
  for (const ConvCase& c : planar_conv_cases()) {
    SCOPED_TRACE(c);
    const ConvGeometry g = geometry(c);
    for (const bool transposed : {false, true}) {
      FewResultsPlan plan;
      if (!cuda::plan_few_results(g, transposed, {}, plan)) continue;
      ++gathers;
      replay(g, transposed, plan);
    }
    FewWeightPlan plan;
    if (cuda::plan_few_weight(g, {}, plan)) {
      ++weights;
      replay(g, plan);
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(gathers, 100);
  EXPECT_GT(weights, 100);
}

TEST(FewResultsPlan, LeavesManyResultsLongStridesAndLargeProblemsToOthers) {
  constexpr std::int64_t kFar = std::int64_t{1} << 30;
  const auto takes = [](const ConvCase& c) {
    FewResultsPlan conv, transposed;
    FewWeightPlan weight;
    const ConvGeometry g = geometry(c);
    return std::tuple{cuda::plan_few_results(g, false, {}, conv), cuda::plan_few_results(g, true, {}, transposed),
                      cuda::plan_few_weight(g, {}, weight)};
  };
  const ConvCase few{.in_channels = 4, .out_channels = 5, .input = {9, 9}, .kernel = {3, 3}};
  EXPECT_EQ(takes(few), std::tuple(true, false, true));
  ConvCase c = few;
  std::swap(c.in_channels, c.out_channels);
  EXPECT_EQ(takes(c), std::tuple(false, true, true));
  c.in_channels = c.out_channels = 5;
  EXPECT_EQ(takes(c), std::tuple(false, false, false));
  c.groups = 5;
  EXPECT_EQ(takes(c), std::tuple(true, true, true));
  c = few;
  c.out_channels = 4;
  c.stride = {1, 16};
  EXPECT_EQ(takes(c), std::tuple(true, true, true));
  c.stride = {17, 1};
  EXPECT_EQ(takes(c), std::tuple(true, false, true));
  c = few;
  c.batch = 0;
  EXPECT_EQ(takes(c), std::tuple(false, false, false));
  c = {.in_channels = 3, .out_channels = 3, .input = {1, 20}, .kernel = {1, 1}, .dilation = {1, kFar}};
  EXPECT_EQ(takes(c), std::tuple(false, false, false));
  c = {.in_channels = 1, .out_channels = 1, .input = {1 << 15, 1 << 15}};
  EXPECT_EQ(takes(c), std::tuple(false, false, false));
  // One pixel a sample, of 256 places that a stride has: 32 bits would count 256 in all.
  c = {.batch = (1 << 24) + 1, .stride = {16, 16}};
  EXPECT_EQ(takes(c), std::tuple(true, false, true));
}

/// The ends of discriminators, as conv_transpose states them: conv makes one channel of `out_channels`.
ConvCase end(std::int64_t batch, std::int64_t channels, const Extent2& result, const Extent2& kernel,
             const Extent2& padding) {
  return {.batch = batch,
          .in_channels = 1,
          .out_channels = channels,
          .input = result,
          .kernel = kernel,
          .padding = padding};
}

TEST(FewResultsPlan, FillsTheMachineAtBatchOne) {
  for (const ConvCase& c : {end(1, 512, {30, 30}, {4, 4}, {1, 1}), end(1, 1024, {1, 64}, {1, 3}, {0, 1}),
                            end(1, 1024, {14, 3}, {3, 1}, {1, 0})}) {
    SCOPED_TRACE(c);
    const ConvGeometry g = geometry(c);
    FewResultsPlan plan;
    ASSERT_TRUE(cuda::plan_few_results(g, false, {}, plan));
    EXPECT_GE(plan.blocks(), 64);
    EXPECT_EQ(plan.workspace_bytes(), 4 * plan.slices * g.feature_numel());
    FewWeightPlan weight;
    ASSERT_TRUE(cuda::plan_few_weight(g, {}, weight));
    EXPECT_GE(weight.tiles() * weight.slices, 256);
  }
}

}  // namespace
}  // namespace adjoint::testing

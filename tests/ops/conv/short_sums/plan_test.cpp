// The schedule of the kernels for few products a result, replayed: every result belongs to one thread of a block of
// channels and sums the products that the definition names, once each.
#include <adjoint/ops/conv/short_sums/plan.h>
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

using cuda::ShortSumsPlace;
using cuda::ShortSumsPlan;
using cuda::ShortSumsTerm;

constexpr cuda::Machine kMachine{}, kSmall{.multiprocessors = 1};

using Product = std::tuple<std::int64_t, std::int64_t>;  // a source element of a sample's group, a weight

/// Along an axis: source positions and taps of result position i, those outside left out.
std::set<std::pair<std::int64_t, std::int64_t>> defined_taps(const ConvGeometry& g, std::size_t axis, bool transposed,
                                                             std::int64_t i) {
  std::set<std::pair<std::int64_t, std::int64_t>> taps;
  for (std::int64_t k = 0; k < g.kernel.in_plane(axis); ++k) {
    const std::int64_t from =
        transposed ? i + g.padding.in_plane(axis) - k * g.dilation.in_plane(axis)
                   : image_position(i, k, g.stride.in_plane(axis), g.padding.in_plane(axis), g.dilation.in_plane(axis));
    if (from >= 0 && from < (transposed ? g.feature : g.image).in_plane(axis)) taps.emplace(from, k);
  }
  return taps;
}

std::set<Product> defined_products(const ConvGeometry& g, bool transposed, const ShortSumsPlan& p, std::int64_t row,
                                   std::int64_t column) {
  const Extents& source = transposed ? g.feature : g.image;
  std::set<Product> products;
  for (const auto& [y, i] : defined_taps(g, 0, transposed, row)) {
    for (const auto& [x, j] : defined_taps(g, 1, transposed, column)) {
      for (std::int64_t c = 0; c < p.source_channels; ++c)
        products.emplace((c * source.h + y) * source.w + x, c * p.filter_source + i * g.kernel.w + j);
    }
  }
  return products;
}

std::set<Product> planned_products(const ShortSumsPlan& p, const ShortSumsPlace& place, std::int32_t position) {
  std::set<Product> products;
  for (std::int32_t n = 0; n < p.terms; ++n) {
    const ShortSumsTerm term = cuda::short_sums_term(p, n);
    const std::int64_t row = place.source_row + term.row, column = place.source_column + position * p.step[1];
    if (row < 0 || row >= p.source[0] || column + term.column < 0 || column + term.column >= p.source[1]) continue;
    products.emplace(place.source_row * p.source[1] + column + term.offset, term.weight);
  }
  return products;
}

void replay(const ConvGeometry& g, bool transposed, const ShortSumsPlan& p) {
  std::set<std::tuple<int, int, int>> seen;
  for (std::int32_t n = 0; n < p.total; ++n) {
    const ShortSumsPlace at = cuda::short_sums_place(p, n);
    ASSERT_LT(at.sample, p.batch);
    for (std::int32_t i = 0; i < p.positions && at.column + i < p.result[1]; ++i) {
      ASSERT_TRUE(seen.emplace(at.sample, at.row, at.column + i).second);
      ASSERT_EQ(planned_products(p, at, i), defined_products(g, transposed, p, at.row, at.column + i));
    }
  }
  ASSERT_EQ(static_cast<std::int64_t>(seen.size()), p.batch * p.result[0] * p.result[1]);
  EXPECT_GE(std::int64_t{p.tiles} * cuda::kShortThreads, p.total);
  EXPECT_GE(p.channel_block * p.channel_blocks, p.channels);
  EXPECT_LT(p.channel_block * (p.channel_blocks - 1), p.channels) << "a block without channels";
}

TEST(ShortSumsPlan, EveryProductOfEveryResultIsMadeOnce) {
  int conv = 0, transposed = 0, packed = 0;
  std::vector<ConvCase> cases = planar_conv_cases();
  cases.push_back({.name = "pointwise", .batch = 3, .in_channels = 12, .out_channels = 20, .input = {6, 16}});
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    for (const bool of_transposed : {false, true}) {
      ShortSumsPlan plan;
      if (!cuda::plan_short_sums(geometry(c), of_transposed, kMachine, plan)) continue;
      ++(of_transposed ? transposed : conv);
      packed += plan.packed;
      replay(geometry(c), of_transposed, plan);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(conv, 100);
  EXPECT_GT(transposed, 20);
  EXPECT_GT(packed, 0);
}

TEST(ShortSumsPlan, LeavesLongSumsStridesOfConvTransposeAndLargeProblemsToOthers) {
  const auto takes = [](const ConvCase& c) {
    ShortSumsPlan conv, transposed;
    return std::pair{cuda::plan_short_sums(geometry(c), false, kMachine, conv),
                     cuda::plan_short_sums(geometry(c), true, kMachine, transposed)};
  };
  // As conv_transpose states them: conv sums over out_channels.
  const ConvCase few{.in_channels = 14, .out_channels = 14, .input = {9, 9}, .kernel = {3, 3}};
  EXPECT_EQ(takes(few), std::pair(true, true));
  ConvCase c = few;
  c.out_channels = 15;
  EXPECT_EQ(takes(c), std::pair(false, true));
  c = few;
  c.in_channels = 15;
  EXPECT_EQ(takes(c), std::pair(true, false));
  c = few;
  c.stride = {1, 2};
  EXPECT_EQ(takes(c), std::pair(true, false));
  c = few;
  c.batch = 0;
  EXPECT_EQ(takes(c), std::pair(false, false));
  c = {.in_channels = 1, .out_channels = 1, .input = {1 << 15, 1 << 15}};
  EXPECT_EQ(takes(c), std::pair(false, false));
}

TEST(ShortSumsPlan, ComputesFewChannelsThatThereAreNotWhereTheMachineIsFull) {
  for (const auto& [channels, block] :
       {std::pair<std::int64_t, int>{1, 4}, {4, 4}, {5, 8}, {12, 12}, {32, 8}, {96, 12}}) {
    const ConvGeometry g = geometry({.batch = 40, .in_channels = channels, .input = {3, 8}});  // conv's results
    ShortSumsPlan plan;
    ASSERT_TRUE(cuda::plan_short_sums(g, false, kSmall, plan));
    EXPECT_EQ(plan.channel_block, block) << channels;
    ASSERT_TRUE(cuda::plan_short_sums(g, false, kMachine, plan));
    EXPECT_EQ(plan.channel_block, 4) << channels;
  }
}

}  // namespace
}  // namespace adjoint::testing

// The cases that tests run on a GPU reach every compiled tile, because a tile that no case reached would be untested.
// If planning has changed, add a case.
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/weight/plan.h>
#include <adjoint/tests/support/conv_layers.h>
#include <adjoint/tests/support/conv_machine.h>
#include <adjoint/tests/support/conv_mode.h>
#include <adjoint/tests/support/conv_tiles.h>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

class ConvTiles : public ::testing::TestWithParam<ConvMode> {
 protected:
  static cuda::Arithmetic arithmetic() { return GetParam().arithmetic(); }
  static bool splits() { return GetParam().splits(); }

  /// For the machine of the tests that run these cases.
  static bool plan(const ConvCase& c, bool transposed, cuda::CorrelationPlan& plan) {
    return cuda::plan_correlation(geometry(c), transposed, arithmetic(), cuda::kCorrelationLimits, kOneMultiprocessor,
                                  plan);
  }
};

std::set<int> compiled_columns(const ConvMode& mode) {
  std::set<int> columns;
  if (mode.splits()) {
    for (const cuda::CorrelationTile& tile : cuda::kSplitCorrelationTiles) columns.insert(tile.columns);
  } else {
    for (const cuda::CorrelationTile& tile : cuda::kCorrelationTiles) columns.insert(tile.columns);
  }
  return columns;
}

TEST_P(ConvTiles, OfCorrelationAreReachedByTheirCases) {
  for (const bool transposed : {false, true}) {
    SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
    std::set<int> columns;
    bool halves = false;
    for (const ConvCase& c : correlation_tile_cases()) {
      cuda::CorrelationPlan p;
      ASSERT_TRUE(plan(c, transposed, p)) << c.name;
      columns.insert(p.tile_columns);
      halves = halves || p.halves();
    }
    EXPECT_EQ(columns, compiled_columns(GetParam()));
    EXPECT_EQ(halves, transposed && !splits());
  }
}

TEST_P(ConvTiles, OfCorrelationAreReachedByVariants) {
  std::set<int> columns;
  for (const ConvCase& c : conv_variant_cases()) {
    for (const bool transposed : {false, true}) {
      cuda::CorrelationPlan p;
      if (plan(c, transposed, p)) columns.insert(p.tile_columns);
    }
  }
  EXPECT_EQ(columns, compiled_columns(GetParam()));
}

TEST_P(ConvTiles, OfWeightAreReachedByTheirCases) {
  std::set<int> columns, compiled;
  for (const ConvCase& c : weight_tile_cases()) {
    cuda::WeightPlan p;
    ASSERT_TRUE(cuda::plan_weight(geometry(c), arithmetic(), {}, p)) << c.name;
    columns.insert(p.tile_columns);
  }
  for (const cuda::WeightTile& tile : cuda::kWeightTiles) {
    if (!splits() || tile.columns != 128) compiled.insert(tile.columns);
  }
  EXPECT_EQ(columns, compiled);
}

TEST_P(ConvTiles, OfWeightAreReachedByVariants) {
  std::set<std::pair<int, int>> mma, wgmma;
  for (const ConvCase& c : conv_variant_cases()) {
    cuda::WeightPlan p;
    if (cuda::plan_weight(geometry(c), arithmetic(), {}, p)) mma.insert({p.tile_rows, p.tile_columns});
    if (cuda::plan_wgmma_weight(geometry(c), arithmetic(), {}, p)) wgmma.insert({p.tile_rows, p.tile_columns});
  }
  for (const cuda::WeightTile& tile : cuda::kWeightTiles) {
    if (splits() && tile.columns == 128) continue;  // not compiled
    EXPECT_TRUE(mma.contains({tile.rows, tile.columns})) << "mma.sync, " << tile.rows << " x " << tile.columns;
  }
  for (const cuda::WeightTile& tile : cuda::kWgmmaWeightTiles) {
    if (splits() && !cuda::wgmma_weight_splits(tile)) continue;
    EXPECT_TRUE(wgmma.contains({tile.rows, tile.columns})) << "wgmma, " << tile.rows << " x " << tile.columns;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ConvTiles, ::testing::ValuesIn(kConvModes),
                         [](const auto& mode) { return std::string(mode.param.name); });

}  // namespace
}  // namespace adjoint::testing

// Every compiled variant of every CUDA kernel of the trio, each once in each arithmetic: exact on integers. Small
// enough for compute-sanitizer.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/weight_plan.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_layers.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

std::vector<ConvCase> variant_cases() {
  std::vector<ConvCase> cases = conv_layers();
  cases.insert(cases.end(), conv_tile_cases().begin(), conv_tile_cases().end());
  return cases;
}

class ConvVariantsCuda : public ::testing::TestWithParam<ConvMode> {};

TEST_P(ConvVariantsCuda, AreExact) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  std::uint64_t seed = 0;
  for (const ConvCase& c : variant_cases()) {
    SCOPED_TRACE(c);
    const ConvGeometry g = geometry(c);
    for (const cuda::ConvRole role : kConvRoles) {
      const ConvOperands operands = integer_operands(role, g, GetParam().dtype, 3, 3, ++seed);
      const cuda::ConvProblem problem = conv_problem(role, g, GetParam(), operands);
      const auto offset = static_cast<std::int64_t>(seed % 16);
      const Tensor expected = run_guarded(*cuda::conv_kernels(role).back(), problem, offset);
      for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
        if (kernel->takes(problem)) {
          expect_same_guarded(kernel->name, run_guarded(*kernel, problem, offset), expected);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ConvVariantsCuda, ::testing::ValuesIn(kConvModes),
                         [](const auto& mode) { return std::string(mode.param.name); });

// Runs without a GPU: a tile that no case reaches would be untested. Where planning has changed, add a case.
class ConvVariants : public ::testing::TestWithParam<ConvMode> {
 protected:
  int unit() const { return element_size(GetParam().dtype) == 2 ? 2 : 1; }
  bool splits() const { return GetParam().dtype == kFloat32 && GetParam().precision == Precision::kFull; }
};

TEST_P(ConvVariants, CorrelationTilesAreAllReached) {
  std::set<int> reached;
  for (const ConvCase& c : variant_cases()) {
    for (const bool transposed : {false, true}) {
      cuda::CorrelationPlan plan;
      if (cuda::plan_correlation(geometry(c), transposed, unit(), splits(), {.gathers = true}, plan)) {
        reached.insert(plan.tile_columns);
      }
    }
  }
  const auto expect_reached = [&](const cuda::CorrelationTile& tile) {
    EXPECT_TRUE(reached.contains(tile.columns)) << tile.columns << " columns";
  };
  if (splits()) {
    for (const cuda::CorrelationTile& tile : cuda::kSplitCorrelationTiles) expect_reached(tile);
  } else {
    for (const cuda::CorrelationTile& tile : cuda::kCorrelationTiles) expect_reached(tile);
  }
}

TEST_P(ConvVariants, WeightTilesAreAllReached) {
  std::set<std::pair<int, int>> mma, wgmma;
  for (const ConvCase& c : variant_cases()) {
    cuda::WeightPlan plan;
    if (cuda::plan_weight(geometry(c), unit(), splits(), plan)) mma.insert({plan.tile_rows, plan.tile_columns});
    if (cuda::plan_wgmma_weight(geometry(c), unit(), splits(), plan)) {
      wgmma.insert({plan.tile_rows, plan.tile_columns});
    }
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

INSTANTIATE_TEST_SUITE_P(Modes, ConvVariants, ::testing::ValuesIn(kConvModes),
                         [](const auto& mode) { return std::string(mode.param.name); });

}  // namespace
}  // namespace adjoint::testing
#endif

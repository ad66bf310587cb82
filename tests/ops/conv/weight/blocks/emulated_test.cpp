// conv_weight from copies in channel blocks on the emulator, copies and all: exact on small integers at any address, on
// any grid, with and without slices.
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/sums/cuda/taps.h>
#include <adjoint/ops/conv/weight/blocks_plan.h>
#include <adjoint/tests/support/conv_machine.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/weight/cuda/blocks/launch.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

using Reached = std::set<std::string>;

template <class M>
void check(const ConvProblem& p, const cuda::Machine& machine, std::uint64_t seed, Reached& reached) {
  using T = typename M::Element;
  cuda::BlockedWeightPlan plan;
  ASSERT_TRUE(cuda::plan_blocked_weight(p.geometry, machine, plan));
  Operand<T> image(p.image, seed % 3), feature(p.feature, seed % 2);
  Operand<T> out(nothing(p.geometry.filter_numel()), seed % 4);
  const auto workspace = [](std::int64_t bytes) { return cuda::Workspace(static_cast<std::size_t>(bytes), 0); };
  const cuda::Workspace image_copy = workspace(plan.image.bytes()), feature_copy = workspace(plan.feature.bytes());
  Operand<float> sums(nothing(plan.sums_bytes() / 4), 0);
  emulate_launches(seed, static_cast<int>(1 + seed % static_cast<std::uint64_t>(plan.tiles())));
  cuda::run_blocked_weight<M::kArithmetic>(plan, {.first = image.data(), .second = feature.data()},
                                           {image_copy.data(), feature_copy.data(), sums.data()});
  cuda::gather_taps(plan.gather, M::kDType, sums.data(), out.data(), 0);
  expect_equal(out.data(), oracle::conv_weight(p.geometry, p.image, p.feature));
  EXPECT_TRUE(out.surroundings_are_kept());
  reached.insert(plan.slices > 1 ? "slices" : "one slice");
  const std::string rows = plan.rows_are_image ? "rows of the image" : "rows of the feature";
  reached.insert(rows + ", " + std::to_string(plan.rows_are_image ? plan.row_boxes : plan.column_boxes) + " boxes");
  if (plan.units % cuda::kWeightTileUnits != 0) reached.insert("tile in part");
  if (plan.image.blocks() > plan.image.chunks * plan.image.chunk_blocks) reached.insert("planes");
}

template <class M>
class BlockedWeightEmulation : public ::testing::Test {};
TYPED_TEST_SUITE(BlockedWeightEmulation, HalfModes);

std::vector<ConvCase> cases() {
  return {
      {.name = "one box",
       .batch = 3,
       .in_channels = 130,
       .out_channels = 70,
       .input = {7, 9},
       .kernel = {3, 3},
       .padding = {1, 1}},
      {.name = "planes",
       .batch = 2,
       .in_channels = 40,
       .out_channels = 65,
       .input = {9, 9},
       .kernel = {3, 3},
       .stride = {2, 2}},
      {.name = "rows",
       .batch = 2,
       .in_channels = 9,
       .out_channels = 33,
       .input = {3, 60},
       .kernel = {3, 4},
       .padding = {1, 1}},
      {.name = "far",
       .batch = 2,
       .in_channels = 8,
       .out_channels = 8,
       .input = {6, 14},
       .kernel = {2, 3},
       .padding = {4, 5},
       .dilation = {9, 11}},
      {.name = "strided dilated",
       .batch = 2,
       .in_channels = 20,
       .out_channels = 12,
       .input = {5, 11},
       .kernel = {3, 2},
       .stride = {2, 3},
       .padding = {1, 2},
       .output_padding = {1, 2},
       .dilation = {3, 2}},
      {.name = "rows of the feature",
       .batch = 2,
       .in_channels = 64,
       .out_channels = 100,
       .input = {4, 70},
       .kernel = {2, 3},
       .padding = {0, 1}},
      {.name = "planes of the feature's",
       .batch = 3,
       .in_channels = 50,
       .out_channels = 129,
       .input = {5, 5},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "line", .batch = 5, .in_channels = 8, .out_channels = 16, .input = {1, 77}, .kernel = {1, 25}},
      {.name = "apart",
       .batch = 3,
       .in_channels = 130,
       .out_channels = 60,
       .input = {5, 5},
       .kernel = {2, 2},
       .stride = {2, 2}},
      {.name = "opening", .batch = 64, .in_channels = 40, .out_channels = 16, .kernel = {4, 4}},
  };
}

TYPED_TEST(BlockedWeightEmulation, EveryFormIsExact) {
  Reached reached;
  std::uint64_t seed = 0;
  for (const ConvCase& c : cases()) {
    SCOPED_TRACE(c);
    const cuda::Machine machine = ++seed % 2 == 0 ? kOneMultiprocessor : cuda::Machine{};
    check<TypeParam>(integer_problem(geometry(c)), machine, seed, reached);
  }
  for (const std::string path :
       {"slices", "one slice", "tile in part", "planes", "rows of the image, 1 boxes", "rows of the image, 2 boxes",
        "rows of the image, 4 boxes", "rows of the feature, 1 boxes", "rows of the feature, 2 boxes"})
    EXPECT_TRUE(reached.contains(path)) << path;
}

TEST(BlockedWeightPlan, IsForTapsOfOneGroup) {
  cuda::BlockedWeightPlan plan;
  const auto takes = [&](const ConvCase& c) { return cuda::plan_blocked_weight(geometry(c), {}, plan); };
  const ConvCase fits{.batch = 4, .in_channels = 64, .out_channels = 64, .input = {4, 4}, .kernel = {3, 3}};
  EXPECT_TRUE(takes(fits));
  ConvCase c = fits;
  c.groups = 2;
  EXPECT_FALSE(takes(c));
  c = fits;
  c.kernel = {8, 9};
  EXPECT_FALSE(takes(c)) << "72 taps";
  c = fits;
  c.kernel = {1, 1};
  EXPECT_FALSE(takes(c)) << "a product of matrices as it is";
  ConvGeometry g = geometry(fits);
  g.batch = 0;
  EXPECT_FALSE(cuda::plan_blocked_weight(g, {}, plan));
  c = fits;
  c.batch = 1 << 14;
  c.input = {64, 64};
  EXPECT_FALSE(takes(c)) << "copies of 9 GB";
}

TEST(BlockedWeightPlan, LongSumsAreCut) {
  for (const cuda::Machine& machine : {kOneMultiprocessor, cuda::Machine{}}) {
    cuda::BlockedWeightPlan plan;
    const ConvCase c{.batch = 2, .in_channels = 64, .out_channels = 64, .input = {1, 1 << 18}, .kernel = {1, 3}};
    ASSERT_TRUE(cuda::plan_blocked_weight(geometry(c), machine, plan));
    EXPECT_LE(plan.slice_stages, 512);
    EXPECT_EQ(cuda::ceil_div(plan.stages, plan.slice_stages), plan.slices);
  }
}

// The units of all tiles cover each tap of each channel once, and boxes hold the data that units read.
TEST(BlockedWeightPlan, UnitsAreEachTapOnce) {
  for (const ConvCase& c : cases()) {
    SCOPED_TRACE(c);
    const ConvGeometry g = geometry(c);
    cuda::BlockedWeightPlan p;
    ASSERT_TRUE(cuda::plan_blocked_weight(g, {}, p));
    std::map<std::pair<std::int32_t, std::int32_t>, int> seen;  // by first row and tap
    std::int64_t stages = 0;
    for (std::int32_t index = 0; index < p.tiles(); ++index) {
      const cuda::BlockedWeightTile tile = cuda::blocked_weight_tile(p, index);
      ASSERT_GT(tile.units, 0);
      ASSERT_GT(tile.stages, 0);
      if (tile.unit == 0 && tile.column == 0) stages += tile.stages;
      for (std::int32_t unit = tile.unit; unit < tile.unit + tile.units; ++unit) {
        const cuda::BlockedWeightUnit at = cuda::blocked_weight_unit(p, unit);
        const cuda::BlockedWeightTap& tap = p.tap_list[at.tap];
        const cuda::BlockedWeightBoxes boxes = cuda::blocked_weight_boxes(p, tile, unit);
        ASSERT_LT(boxes.row, p.row_boxes);
        ASSERT_LT(boxes.column, p.column_boxes);
        ASSERT_LE(cuda::kWeightStage + tap.shift, p.image_positions);
        if (tile.slice == 0 && tile.column == 0) ++seen[{at.row, tap.tap}];
      }
    }
    EXPECT_EQ(stages, p.stages);
    EXPECT_EQ(static_cast<std::int32_t>(seen.size()), p.units);
    for (const auto& [unit, count] : seen) EXPECT_EQ(count, 1);
    EXPECT_GE(p.slots, 3);
  }
}

}  // namespace
}  // namespace adjoint::testing

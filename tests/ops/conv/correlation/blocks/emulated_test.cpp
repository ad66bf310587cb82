// The tensor-core kernel of conv and conv_transpose that reads a copy in channel blocks, and the kernel that makes the
// copy, on the emulator: exact on small integers in every arithmetic, at any address, on any grid and in any order of
// execution.
#include <adjoint/tests/ops/conv/correlation/blocks/emulated_run.h>
#include <adjoint/tests/ops/conv/correlation/emulated_run.h>
#include <adjoint/tests/support/activations.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace adjoint::testing {
namespace {

template <class M>
class BlockedEmulation : public CorrelationFixture {
 protected:
  bool compute(const CorrelationCall& call) override {
    SCOPED_TRACE(call.transposed ? "conv_transpose" : "conv");
    cuda::CorrelationPlan plan;
    if (!cuda::plan_correlation(call.geometry, call.transposed, M::kArithmetic, cuda::kBlockedLimits, this->machine,
                                plan)) {
      return false;
    }
    const auto run = [&](auto operands, const cuda::ConvProblem& problem) {
      if (read_again) operands.stores_boxes = false;
      run_blocked<M>(plan, operands, problem);
      ways.merge(ways_of_operands(plan, operands));
      ways.merge(ways_of_pixels<typename M::Element>(plan, operands));
    };
    expect_exact<M>(plan, call, run);
    tiles.insert(tile_name(plan));
    reached.insert("columns " + std::to_string(plan.tile_columns) + (plan.halves() ? " in halves" : ""));
    reached.insert("boxes of " + std::to_string(1 << plan.log2_stage_w()) + " columns" +
                   (plan.log2_stage_n() > 0 ? " and images" : ""));
    if (plan.box_step() != 8) reached.insert("rows with halos");
    if (plan.cluster > 1) reached.insert("cluster");
    if (plan.weights_resident) reached.insert("resident");
    if (plan.copy().rows() * plan.in_stride_h > plan.in_h) reached.insert("planes with zeros");
    if (plan.flat()) {
      reached.insert("flat");
      reached.insert(plan.class_list[0].passes > plan.in_stride_h * plan.in_stride_w ? "flat rows" : "flat planes");
      if (plan.out_w % 2 == 0) reached.insert("flat vectors");
    }
    return true;
  }
};
TYPED_TEST_SUITE(BlockedEmulation, Modes);

TYPED_TEST(BlockedEmulation, RandomGeometriesAreExact) {
  std::uint64_t taken = 0;
  for (std::uint64_t seed = 0; seed < kRandomCases; ++seed) {
    taken += this->compute_both(random_case(seed), seed);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(2 * taken, 3 * kRandomCases);
}

TYPED_TEST(BlockedEmulation, EveryTileIsExact) {
  std::uint64_t seed = 0;
  for (const ConvCase& c : every_tile_cases()) EXPECT_GT(this->compute_both(c, ++seed), 0);
  for (const ConvCase& c : {
           ConvCase{
               .batch = 5, .in_channels = 9, .out_channels = 130, .input = {4, 4}, .kernel = {3, 3}, .padding = {1, 1}},
           ConvCase{
               .batch = 6, .in_channels = 9, .out_channels = 130, .input = {4, 8}, .kernel = {3, 3}, .padding = {1, 1}},
           ConvCase{
               .batch = 3, .in_channels = 9, .out_channels = 130, .input = {2, 3}, .kernel = {2, 2}, .stride = {2, 2}},
           ConvCase{
               .batch = 9, .in_channels = 9, .out_channels = 70, .input = {1, 12}, .kernel = {1, 3}, .stride = {1, 2}},
           ConvCase{.batch = 2,
           .in_channels = 9,
           .out_channels = 34,
           .input = {9, 13},
           .kernel = {3, 3},
           .dilation = {2, 2}},
           ConvCase{.batch = 1, .in_channels = 9, .out_channels = 130, .input = {3, 150}, .kernel = {2, 2}},
       }) {
    EXPECT_GT(this->compute_both(c, ++seed), 0);
  }
  std::set<std::string> all{"columns 128",
                            "boxes of 4 columns and images",
                            "boxes of 8 columns",
                            "boxes of 8 columns and images",
                            "boxes of 64 columns",
                            "rows with halos",
                            "cluster",
                            "resident",
                            "planes with zeros"};
  if (!TypeParam::kSplit) all.insert({"columns 64", "columns 256", "columns 256 in halves", "columns 128 in halves"});
  for (const std::string& path : all) EXPECT_TRUE(this->reached.contains(path)) << path;
}

// Positions in one line: planes of odd extents, whose rows and images a tile cuts anywhere.
TYPED_TEST(BlockedEmulation, FlatPlansAreExact) {
  std::uint64_t seed = 0;
  for (const ConvCase& c : {
           ConvCase{
               .batch = 9, .in_channels = 20, .out_channels = 70, .input = {9, 9}, .kernel = {3, 3}, .stride = {2, 2}},
           ConvCase{.batch = 7, .in_channels = 40, .out_channels = 70, .input = {5, 5}, .kernel = {2, 2}},
           ConvCase{.batch = 2,
           .in_channels = 18,
           .out_channels = 130,
           .groups = 2,
           .input = {5, 33},
           .kernel = {4, 4},
           .stride = {2, 2},
           .padding = {1, 1},
           .output_padding = {1, 1}},
           ConvCase{.batch = 2,
           .in_channels = 9,
           .out_channels = 129,
           .input = {5, 65},
           .kernel = {3, 3},
           .padding = {4, 3},
           .dilation = {2, 2}},
           ConvCase{.batch = 11, .in_channels = 9, .out_channels = 130, .input = {1, 37}, .kernel = {1, 5}},
           ConvCase{.batch = 7, .in_channels = 9, .out_channels = 70, .input = {10, 10}, .kernel = {1, 1}},
       }) {
    ++seed;
    EXPECT_EQ(this->compute_both(c, seed, activation_cases()[seed % 2].activation), 2);
    if (::testing::Test::HasFailure()) return;
  }
  for (const std::string path : {"flat", "flat rows", "flat planes", "flat vectors"}) {
    EXPECT_TRUE(this->reached.contains(path)) << path;
  }
}

// Planned for many multiprocessors, small problems get the tiles of deep layers.
TYPED_TEST(BlockedEmulation, TilesOfFewPositionsAreExact) {
  this->machine = {};
  std::uint64_t seed = 0;
  for (const ConvCase& c : every_tile_cases()) this->compute_both(c, ++seed);
  EXPECT_TRUE(this->tiles.contains("128 x 128"));
  EXPECT_TRUE(this->tiles.contains("128 x 128 in halves"));
}

// Rows that boxes could write, written by threads.
TYPED_TEST(BlockedEmulation, ResultsThatAreReadAgainAreExact) {
  if (TypeParam::kDType != kFloat32) GTEST_SKIP() << "halves leave so in any case";
  this->read_again = true;
  for (const ConvCase& c : box_cases()) EXPECT_GT(this->compute_both(c, 0), 0);
}

// Sums that leave straight from registers.
TYPED_TEST(BlockedEmulation, WholeSectorsAreExact) {
  if (TypeParam::kDType != kFloat32) GTEST_SKIP() << "halves leave otherwise";
  for (const ConvCase& c : box_cases()) {
    this->compute_both(c, 0);
    if (::testing::Test::HasFailure()) return;
  }
  for (const std::string way :
       {"leaves from registers, 4 phases", "leaves from registers, 8 phases", "leaves from registers to several rows"})
    EXPECT_TRUE(this->ways.contains(way)) << way;
}

// Rows of any stride, with a bias, an activation and a copy of its input.
TYPED_TEST(BlockedEmulation, PixelsAreExact) {
  std::uint64_t seed = 0;
  for (const ConvCase& c : pixel_cases()) {
    const ConvProblem p = integer_problem(geometry(c));
    SCOPED_TRACE(c);
    EXPECT_TRUE(this->compute({p, true, ++seed, activation_cases()[1].activation}));
    if (::testing::Test::HasFailure()) return;
  }
  for (const std::string& way : kWaysOfPixels) EXPECT_TRUE(this->ways.contains(way)) << way;
}

TYPED_TEST(BlockedEmulation, ActivationsComeBeforeTheRounding) {
  std::uint64_t seed = 0;
  for (const ActivationCase& a : activation_cases()) {
    SCOPED_TRACE(a);
    const ConvCase c{.batch = 2,
                     .in_channels = 9,
                     .out_channels = 50,
                     .input = {3, 21},
                     .kernel = {2, 3},
                     .stride = {1, 2},
                     .padding = {0, 1}};
    EXPECT_EQ(this->compute_both(c, ++seed, a.activation), 2);
  }
}

}  // namespace
}  // namespace adjoint::testing

// The tensor-core kernel of conv and conv_transpose on the emulator: exact on small integers in every arithmetic, at
// any address, on any grid and in any order of execution.
#include <adjoint/tests/ops/conv/correlation/emulated_run.h>
#include <adjoint/tests/support/activations.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace adjoint::testing {
namespace {

template <class M>
class CorrelationEmulation : public CorrelationFixture {
 protected:
  bool compute(const CorrelationCall& call) override {
    cuda::CorrelationPlan plan;
    cuda::CorrelationLimits limits = cuda::kCorrelationLimits;
    if (call.seed % 4 == 0) limits.gathers = false;
    if (call.seed % 4 == 1) limits.boxed = false;
    const bool planned =
        pairs_columns
            ? !call.transposed && cuda::plan_paired_columns(call.geometry, limits, this->machine, plan)
            : cuda::plan_correlation(call.geometry, call.transposed, M::kArithmetic, limits, this->machine, plan);
    if (!planned) return false;
    const auto run = [&](auto operands, const cuda::ConvProblem& problem) {
      if (read_again) operands.stores_boxes = false;
      cuda::run_correlation<M::kArithmetic>(plan, operands, problem);
      ways.merge(ways_of_operands(plan, operands));
      ways.merge(ways_of_pixels<typename M::Element>(plan, operands));
    };
    expect_exact<M>(plan, call, run);
    tiles.insert(tile_name(plan));
    reached.insert("columns " + std::to_string(plan.tile_columns));
    if (plan.cluster > 1) reached.insert("cluster");
    if (plan.gathers) reached.insert("gathers");
    if (plan.halves()) reached.insert("halves");
    if (plan.weights_resident) reached.insert("resident");
    return true;
  }
};
TYPED_TEST_SUITE(CorrelationEmulation, Modes);

TYPED_TEST(CorrelationEmulation, RandomGeometriesAreExact) {
  std::uint64_t taken = 0;
  for (std::uint64_t seed = 0; seed < kRandomCases; ++seed) taken += this->compute_both(random_case(seed), seed);
  EXPECT_GT(2 * taken, 3 * kRandomCases);
}

TYPED_TEST(CorrelationEmulation, EveryTileIsExact) {
  std::uint64_t seed = 0;
  for (const ConvCase& c : every_tile_cases()) EXPECT_GT(this->compute_both(c, ++seed), 0);
  std::set<std::string> all{"columns 16", "columns 32", "columns 64", "columns 128", "cluster", "gathers", "resident"};
  if (!TypeParam::kSplit) all.insert({"columns 256", "halves"});
  EXPECT_EQ(this->reached, all);
}

// Planned for many multiprocessors, small problems get the tiles of deep layers.
TYPED_TEST(CorrelationEmulation, TilesOfFewPositionsAreExact) {
  this->machine = {};
  std::uint64_t seed = 0;
  for (const ConvCase& c : every_tile_cases()) this->compute_both(c, ++seed);
  if (TypeParam::kSplit) return;  // such tiles are its largest
  EXPECT_TRUE(this->tiles.contains("128 x 128"));
  EXPECT_TRUE(this->tiles.contains("128 x 128 in halves"));
}

// Rows that boxes could write, written by threads.
TYPED_TEST(CorrelationEmulation, ResultsThatAreReadAgainAreExact) {
  if (TypeParam::kDType != kFloat32) GTEST_SKIP() << "halves leave so in any case";
  this->read_again = true;
  for (const ConvCase& c : box_cases()) EXPECT_GT(this->compute_both(c, 0), 0);
}

// At several alignments each, with an activation and a copy of its input.
TYPED_TEST(CorrelationEmulation, BoxesAreExact) {
  if (TypeParam::kDType != kFloat32) GTEST_SKIP() << "halves come and go otherwise";
  for (const ConvCase& c : box_cases()) {
    for (const std::uint64_t seed : {0, 10, 18, 4}) this->compute_both(c, seed, activation_cases()[1].activation);
    this->compute_both(c, 0);
    if (::testing::Test::HasFailure()) return;
  }
  const std::set<std::string> all{"comes in boxes",
                                  "comes in boxes with a stride",
                                  "comes in several boxes",
                                  "is gathered from boxes",
                                  "is gathered with a wide stride",
                                  "comes with a wide stride",
                                  "channels are gathered from several boxes",
                                  "leaves in boxes of 1 phases",
                                  "leaves in boxes of 2 phases",
                                  "leaves in boxes of 4 phases",
                                  "leaves in boxes of 8 phases",
                                  "leaves in boxes of several rows",
                                  "leaves in shifted boxes",
                                  "leaves from registers, 4 phases",
                                  "leaves from registers, 8 phases"};
  for (const std::string& way : all) EXPECT_TRUE(this->ways.contains(way)) << way;
}

// Whatever the quicker way would be.
TYPED_TEST(CorrelationEmulation, PairsOfColumnsAreExact) {
  if (TypeParam::kDType == kFloat32) GTEST_SKIP() << "pairs are of halves";
  this->pairs_columns = true;
  for (const ConvCase& c : pair_cases()) {
    for (const std::uint64_t seed : {0, 2, 3}) {
      EXPECT_EQ(this->compute_both(c, seed, activation_cases()[1].activation), 1);
    }
    if (::testing::Test::HasFailure()) return;
  }
  for (const char* way : {"comes in several boxes", "is gathered from boxes", "units begin before the first tap",
                          "comes in boxes with a stride"}) {
    EXPECT_TRUE(this->ways.contains(way)) << way;
  }
}

// Rows of any stride, with a bias, an activation and a copy of its input.
TYPED_TEST(CorrelationEmulation, PixelsAreExact) {
  std::uint64_t seed = 0;
  for (const ConvCase& c : pixel_cases()) {
    const ConvProblem p = integer_problem(geometry(c));
    SCOPED_TRACE(c);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(this->compute({p, true, ++seed, activation_cases()[1].activation}));
    if (::testing::Test::HasFailure()) return;
  }
  std::set<std::string> all{"columns 16", "columns 32", "columns 64", "several rows of phases"};
  all.insert(kWaysOfPixels.begin(), kWaysOfPixels.end());
  for (const std::string& way : all) EXPECT_TRUE(this->ways.contains(way)) << way;
}

// The filter is packed in rounds, in one of the cases of less than a row of phases.
TYPED_TEST(CorrelationEmulation, WideStridesAreExact) {
  const ConvCase cases[] = {
      {.in_channels = 3, .out_channels = 2, .input = {1, 3}, .kernel = {1, 400}, .stride = {1, 600}},
      {.in_channels = 3, .out_channels = 2, .input = {1, 5}, .kernel = {1, 500}, .stride = {1, 70}}};
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    EXPECT_TRUE(this->compute({integer_problem(geometry(c)), true, 1}));
  }
}

// For every geometry: the emulated driver throws where the real one refuses.
TYPED_TEST(CorrelationEmulation, TheDriverTakesEveryLayout) {
  if (TypeParam::kDType != kFloat32) GTEST_SKIP() << "halves come and go otherwise";
  alignas(16) static float tensor[8];
  int boxed = 0, stored = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    ConvCase c = random_case(seed);
    c.stride.h = 1 + static_cast<std::int64_t>(seed % 12);
    c.output_padding.h = 0;
    const ConvGeometry g = geometry(c);
    if (g.image.h < 1) continue;
    for (const bool transposed : {true, false}) {
      cuda::CorrelationPlan plan;
      if (!cuda::plan_correlation(g, transposed,
                                  TypeParam::kSplit ? cuda::Arithmetic::kFloat32 : cuda::Arithmetic::kTF32,
                                  cuda::kCorrelationLimits, kOneMultiprocessor, plan))
        continue;
      if (plan.tiles() == 0) continue;
      if (plan.boxed) {
        ++boxed;
        emulation::encode_tensor_map(cuda::correlation_input_layout(plan, tensor, TypeParam::kSplit));
      }
      if (!cuda::correlation_stores_boxes(plan, tensor)) continue;
      ++stored;
      emulation::encode_tensor_map(cuda::correlation_store_layout(plan, tensor));
      if (cuda::correlation_shifts_boxes(plan)) {
        // Its rows begin elsewhere in the tensor, at such a place that the sum is a multiple of 16 bytes.
        EXPECT_EQ((std::int64_t{plan.out_h} * plan.out_w - cuda::kBoxShift) % 4, 0);
      }
    }
  }
  EXPECT_GT(boxed, 100);
  EXPECT_GT(stored, 100);
}

// Of sum and bias, before they are rounded: every tile's staging, rows and phases.
TYPED_TEST(CorrelationEmulation, ActivationsComeBeforeTheRounding) {
  std::uint64_t seed = 0;
  for (const std::int64_t channels : {5, 20, 50, 100}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      const ConvCase c{.batch = 2,
                       .in_channels = 9,
                       .out_channels = channels,
                       .input = {3, 21},
                       .kernel = {2, 3},
                       .stride = {1, stride},
                       .padding = {0, 1}};
      for (const ActivationCase& a : activation_cases()) {
        SCOPED_TRACE(a);
        EXPECT_EQ(this->compute_both(c, ++seed, a.activation), 2);
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing

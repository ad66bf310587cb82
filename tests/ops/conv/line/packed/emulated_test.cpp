// The kernel for few results a position and several taps on the emulator: exact on small integers in every arithmetic,
// at any address and in any order of execution.
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/line/packed/cuda/launch.cuh>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace adjoint::testing {
namespace {

/// The parts of the kernel that the cases have reached.
using Reached = std::set<std::string>;

template <class M>
void check(const ConvProblem& p, bool transposed, const Activation& activation, std::uint64_t seed, Reached& reached) {
  using T = typename M::Element;
  const ConvGeometry& g = p.geometry;
  cuda::PackedPlan plan;
  if (!cuda::plan_packed(g, transposed, M::kArithmetic, plan)) return;
  SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
  EmulatedCall<T> call(p, transposed, activation, seed);
  emulate_launches(seed);
  cuda::run_packed<M::kArithmetic>(plan, call.problem());
  call.expect_right();
  const cuda::packed::Operands<T> operands{cuda::line_operands<T>(plan, call.problem()), nullptr, {}};
  reached.insert(plan.filter_stays ? "a filter that stays" : "a filter that passes");
  reached.insert(operands.vectors ? "vectors" : "elements");
  if (activation.is_none() && cuda::packed::stores_pairs(plan, operands)) reached.insert("pairs of stores");
  if (plan.column_tiles > 1) reached.insert("column tiles");
  if (plan.stages() > 1) reached.insert("stages");
  if (plan.stack > 1) reached.insert(plan.paired ? "pairs" : "stacked offsets");
  if (plan.w.phases == 1 && plan.w.tap[0][plan.w.offsets - 1] < 0) reached.insert("an offset that fills up");
  if (plan.slot_columns < plan.row_products()) reached.insert("slots of a row");
  if (plan.slot_rows > 1) reached.insert("rows of a slot");
  if (plan.rows > 1) reached.insert("rows of a tile");
  if (plan.planes > 1) reached.insert("planes of a tile");
  if (plan.row_tiles > 1) reached.insert("row tiles");
  if (plan.h.shift > 0 || plan.w.shift > 0) reached.insert("shifted grid");
}

template <class M>
class PackedEmulation : public ::testing::Test {};
TYPED_TEST_SUITE(PackedEmulation, Modes);

TYPED_TEST(PackedEmulation, RandomGeometriesAreExact) {
  Reached reached;
  for (std::uint64_t seed = 0; seed < 2 * kRandomCases; ++seed) {
    const ConvCase c = random_case(seed);
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const bool transposed : {true, false}) {
      check<TypeParam>(p, transposed, seed % 4 == 1 ? kReLU : Activation{}, seed, reached);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TYPED_TEST(PackedEmulation, EveryPathIsExact) {
  Reached reached;
  const ConvCase cases[] = {
      {.name = "square", .batch = 2, .in_channels = 40, .out_channels = 20, .input = {12, 64}, .kernel = {3, 3}},
      {.name = "wide", .in_channels = 2, .out_channels = 1, .input = {4, 1700}, .kernel = {3, 2}, .padding = {1, 0}},
      {.name = "upscale",
       .batch = 2,
       .in_channels = 18,
       .out_channels = 1,
       .input = {20, 21},
       .kernel = {9, 9},
       .stride = {3, 3},
       .padding = {4, 4},
       .output_padding = {2, 2}},
      {.name = "filled", .in_channels = 9, .out_channels = 20, .input = {1, 300}, .kernel = {1, 7}},
      {.name = "deep", .in_channels = 200, .out_channels = 33, .input = {8, 20}, .kernel = {3, 5}},
      {.name = "groups", .in_channels = 18, .out_channels = 6, .groups = 2, .input = {6, 20}, .kernel = {3, 3}},
      {.name = "planes", .batch = 9, .in_channels = 9, .out_channels = 3, .input = {3, 8}, .kernel = {2, 2}},
      {.name = "long", .in_channels = 9, .out_channels = 1, .input = {1, 2000}, .kernel = {1, 2}},
      {.name = "line", .batch = 3, .in_channels = 70, .out_channels = 50, .input = {1, 500}, .kernel = {1, 7}},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    for (std::uint64_t seed : {0, 10}) {
      for (const bool transposed : {true, false}) {
        check<TypeParam>(integer_problem(geometry(c)), transposed, seed == 0 ? kReLU : Activation{}, seed, reached);
      }
    }
  }
  for (const char* path :
       {"a filter that stays", "a filter that passes", "column tiles", "row tiles", "planes of a tile", "stages",
        "stacked offsets", "pairs", "pairs of stores", "an offset that fills up", "slots of a row", "rows of a slot",
        "rows of a tile", "shifted grid", "vectors", "elements"}) {
    EXPECT_TRUE(reached.contains(path)) << path;
  }
}

}  // namespace
}  // namespace adjoint::testing

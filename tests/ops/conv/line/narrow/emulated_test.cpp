// The kernel for few results a position on the emulator: exact on small integers in every dtype, at any address and in
// any order of execution, with NaN and infinity where the oracle has them.
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/line/narrow/cuda/launch.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

namespace adjoint::testing {
namespace {

/// One of the arithmetics in elements of T.
template <class T>
constexpr cuda::Arithmetic kArithmeticOf = sizeof(T) == 2 ? cuda::Arithmetic::kBFloat16 : cuda::Arithmetic::kTF32;

/// The parts of the kernel that the cases have reached.
using Reached = std::set<std::string>;

template <class T>
void check(const ConvProblem& p, bool transposed, const Activation& activation, std::uint64_t seed, Reached& reached) {
  const ConvGeometry& g = p.geometry;
  cuda::NarrowPlan plan;
  if (!cuda::plan_narrow(g, transposed, kArithmeticOf<T>, plan)) return;
  SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
  EmulatedCall<T> call(p, transposed, activation, seed);
  emulate_launches(seed);
  cuda::run_narrow<kDTypeOf<T>>(plan, call.problem());
  call.expect_right();
  reached.insert(std::to_string(plan.results) + " results");
  reached.insert(cuda::line_operands<T>(plan, call.problem()).vectors ? "vectors" : "elements");
  if (plan.column_tiles > 1) reached.insert("column tiles");
  if (plan.line_tiles > 1) reached.insert("line tiles");
  if (plan.result_blocks > 1) reached.insert("blocks of results");
  if (plan.h.shift > 0 || plan.w.shift > 0) reached.insert("shifted grid");
}

/// Few channels of the result, so that each number of results a position occurs.
ConvCase narrow_case(std::uint64_t seed) {
  ConvCase c = random_case(seed);
  const auto channels = static_cast<std::int64_t>(1 + seed % 5);
  for (std::size_t axis = 0; axis < 2; ++axis) c.stride.in_plane(axis) = seed % 3 == 0 ? 1 : c.stride.in_plane(axis);
  (seed % 2 == 0 ? c.in_channels : c.out_channels) = c.groups * channels;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    c.output_padding.in_plane(axis) =
        std::min(c.output_padding.in_plane(axis), std::max(c.stride.in_plane(axis), c.dilation.in_plane(axis)) - 1);
  }
  return c;
}

bool is_possible(const ConvCase& c) {
  const Extents out = output_extents(c);
  return out.h >= 1 && out.w >= 1;
}

template <class T>
class NarrowEmulation : public ::testing::Test {};
using Elements = ::testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(NarrowEmulation, Elements);

TYPED_TEST(NarrowEmulation, RandomGeometriesAreExact) {
  Reached reached;
  for (std::uint64_t seed = 0; seed < 3 * kRandomCases; ++seed) {
    const ConvCase c = narrow_case(seed);
    if (!is_possible(c)) continue;
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const bool transposed : {true, false}) {
      check<TypeParam>(p, transposed, seed % 4 == 1 ? kReLU : Activation{}, seed, reached);
    }
    if (::testing::Test::HasFailure()) return;
  }
  for (const std::int32_t results : cuda::kNarrowResults) {
    EXPECT_TRUE(kRandomCases < 40 || reached.contains(std::to_string(results) + " results")) << results;
  }
}

TYPED_TEST(NarrowEmulation, EveryPathIsExact) {
  Reached reached;
  const ConvCase cases[] = {
      {.name = "aligned", .batch = 2, .in_channels = 19, .out_channels = 3, .input = {12, 64}, .kernel = {3, 3}},
      {.name = "wide", .in_channels = 2, .out_channels = 1, .input = {4, 2500}, .kernel = {3, 2}, .padding = {1, 0}},
      {.name = "upscale",
       .batch = 2,
       .in_channels = 5,
       .out_channels = 1,
       .input = {40, 40},
       .kernel = {9, 9},
       .stride = {3, 3},
       .padding = {4, 4},
       .output_padding = {2, 2}},
      {.name = "many_results",
       .in_channels = 3,
       .out_channels = 5,
       .input = {9, 8},
       .kernel = {4, 4},
       .stride = {2, 2}},
      {.name = "line", .batch = 3, .in_channels = 20, .out_channels = 1, .input = {1, 1500}, .kernel = {1, 7}},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    for (std::uint64_t seed : {0, 10}) {
      check<TypeParam>(integer_problem(geometry(c)), true, seed == 0 ? kReLU : Activation{}, seed, reached);
    }
  }
  for (const char* path : {"vectors", "elements", "column tiles", "line tiles", "blocks of results", "shifted grid"}) {
    EXPECT_TRUE(reached.contains(path)) << path;
  }
}

TYPED_TEST(NarrowEmulation, NonFiniteValuesAppearWhereTheOraclePutsThem) {
  Reached reached;
  for (std::uint64_t seed = 200; seed < 208; ++seed) {
    const ConvCase c = narrow_case(seed);
    if (!is_possible(c)) continue;
    SCOPED_TRACE(c);
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      for (auto operand : {&ConvProblem::image, &ConvProblem::filter, &ConvProblem::feature}) {
        ConvProblem p = integer_problem(geometry(c));
        (p.*operand)[(p.*operand).size() / 2] = value;
        check<TypeParam>(p, true, {}, seed, reached);
        check<TypeParam>(p, false, {}, seed, reached);
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing

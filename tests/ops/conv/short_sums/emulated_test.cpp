// The kernels for few products a result on the emulator: exact on small integers in every dtype, at any address and in
// any order of execution; non-finite values in the source reach only their own results.
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/short_sums/cuda/launch.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

/// The parts of the kernels that the cases have reached.
using Reached = std::set<std::string>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
void check(const ConvProblem& p, bool transposed, const Activation& activation, std::uint64_t seed, Reached& reached) {
  const ConvGeometry& g = p.geometry;
  cuda::ShortSumsPlan plan;
  if (!cuda::plan_short_sums(g, transposed, cuda::Machine{.multiprocessors = seed % 4 == 0 ? 132 : 1}, plan)) return;
  SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
  EmulatedCall<T> call(p, transposed, activation, seed);
  const auto operands = cuda::short_sums::operands_of<T>(plan, call.problem());
  emulate_launches(seed);
  cuda::run_short_sums<kDTypeOf<T>>(plan, call.problem());
  call.expect_right();
  reached.insert("blocks of " + std::to_string(plan.channel_block) + (plan.packed != 0 ? ", packed" : ""));
  reached.insert(operands.stores_packs ? "stores of packs" : "stores of one");
  if (plan.packed != 0) reached.insert(operands.loads_packs ? "loads of packs" : "loads of one");
  if (plan.channel_blocks > 1) reached.insert("several blocks of channels");
  if (plan.tiles > 1) reached.insert("tiles");
  if (g.groups > 1) reached.insert("groups");
}

template <class T>
void check_both(const ConvProblem& p, const Activation& activation, std::uint64_t seed, Reached& reached) {
  for (const bool transposed : {false, true}) check<T>(p, transposed, activation, seed, reached);
}

template <class T>
class ShortSumsEmulation : public ::testing::Test {};
using Elements = ::testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(ShortSumsEmulation, Elements);

/// Few channels of the image, or of the feature and stride 1.
ConvCase short_case(std::uint64_t seed) {
  ConvCase c = random_case(seed);
  if (seed % 2 == 0) {
    c.out_channels = c.groups * static_cast<std::int64_t>(1 + seed / 2 % 4);
  } else {
    c.in_channels = c.groups * static_cast<std::int64_t>(1 + seed / 2 % 4);
    c.stride = {1, 1};
    c.output_padding = {0, 0};
  }
  return c;
}

TYPED_TEST(ShortSumsEmulation, RandomGeometriesAreExact) {
  Reached reached;
  for (std::uint64_t seed = 0; seed < 2 * kRandomCases; ++seed) {
    const ConvCase c = short_case(seed);
    if (output_extents(c).h < 1 || output_extents(c).w < 1) continue;
    SCOPED_TRACE(c);
    check_both<TypeParam>(integer_problem(geometry(c)), seed % 4 == 1 ? kReLU : Activation{}, seed, reached);
    if (::testing::Test::HasFailure()) return;
  }
  if (kRandomCases < 40) return;
  for (const char* what : {"blocks of 4", "blocks of 8", "blocks of 12", "several blocks of channels", "tiles",
                           "groups", "stores of packs", "stores of one"}) {
    EXPECT_TRUE(reached.contains(what)) << what;
  }
}

/// Layers that read pictures in small, 1 x 1 layers of few channels, and the most terms that there are.
TYPED_TEST(ShortSumsEmulation, EveryPathIsExact) {
  Reached reached;
  // As conv_transpose states them: conv reads out_channels.
  const ConvCase cases[] = {
      {.name = "picture",
       .batch = 2,
       .in_channels = 20,
       .out_channels = 3,
       .input = {5, 7},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "sound", .in_channels = 24, .out_channels = 1, .input = {1, 150}, .kernel = {1, 15}, .padding = {0, 7}},
      {.name = "most_terms", .in_channels = 3, .out_channels = 128, .input = {3, 8}},
      {.name = "pointwise", .batch = 3, .in_channels = 12, .out_channels = 20, .input = {6, 16}},
      {.name = "pointwise_few", .batch = 2, .in_channels = 2, .out_channels = 33, .input = {1, 24}},
      {.name = "pointwise_many", .in_channels = 40, .out_channels = 5, .input = {4, 4}},
      {.name = "pointwise_odd", .in_channels = 5, .out_channels = 9, .input = {5, 7}},
      {.name = "pointwise_groups", .in_channels = 6, .out_channels = 18, .groups = 2, .input = {2, 8}},
      {.name = "flipped",
       .batch = 2,
       .in_channels = 9,
       .out_channels = 2,
       .input = {6, 9},
       .kernel = {3, 4},
       .padding = {2, 0},
       .dilation = {2, 1}},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    for (const std::uint64_t seed : {0, 6, 10, 21}) {
      check_both<TypeParam>(integer_problem(geometry(c)), seed == 10 ? kReLU : Activation{}, seed, reached);
    }
  }
  for (const char* what : {"blocks of 4, packed", "blocks of 8, packed", "blocks of 12, packed", "loads of packs",
                           "loads of one", "stores of packs", "stores of one", "tiles"}) {
    EXPECT_TRUE(reached.contains(what)) << what;
  }
}

TYPED_TEST(ShortSumsEmulation, NonFiniteSourcesReachTheirResultsAlone) {
  Reached reached;
  for (std::uint64_t seed = 300; seed < 308; ++seed) {
    const ConvCase c = short_case(seed);
    if (output_extents(c).h < 1 || output_extents(c).w < 1) continue;
    SCOPED_TRACE(c);
    for (const double value : {kNaN, std::numeric_limits<double>::infinity()}) {
      for (const bool transposed : {false, true}) {
        ConvProblem p = integer_problem(geometry(c));
        std::vector<double>& source = transposed ? p.feature : p.image;
        source[source.size() / 2] = value;
        check<TypeParam>(p, transposed, {}, seed, reached);
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing

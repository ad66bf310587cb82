// The kernel for few output channels on the emulator: exact on small integers, at any address and in any order of
// execution.
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/line/col2im/cuda/launch.cuh>

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
  const ConvGeometry& g = p.geometry;
  cuda::Col2imPlan plan;
  if (!cuda::plan_col2im(g, transposed, M::kArithmetic, {}, plan)) return;
  SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
  EmulatedCall<float> call(p, transposed, activation, seed);
  emulate_launches(seed);
  cuda::run_col2im<M::kArithmetic>(plan, call.problem());
  call.expect_right();
  reached.insert(std::to_string(plan.columns) + " columns");
  reached.insert(std::to_string(plan.depths) + " depths");
  reached.insert(cuda::line_operands<float>(plan, call.problem()).vectors ? "boxes" : "elements");
  if (plan.stages > 1) reached.insert("stages");
  if (plan.column_tiles > 1) reached.insert("column tiles");
  if (plan.row_tiles > 1) reached.insert("row tiles");
  if (plan.w.source > cuda::kCol2imChunk) reached.insert("chunks");
  if (plan.ring_rows > 1) reached.insert("rows that overlap");
  if (plan.h.shift > 0) reached.insert("shifted grid");
}

template <class M>
class Col2imEmulation : public ::testing::Test {};
using Float32Modes = ::testing::Types<Mode<cuda::Arithmetic::kTF32>, Mode<cuda::Arithmetic::kFloat32>>;
TYPED_TEST_SUITE(Col2imEmulation, Float32Modes);

TYPED_TEST(Col2imEmulation, RandomGeometriesAreExact) {
  Reached reached;
  for (std::uint64_t seed = 0; seed < 4 * kRandomCases; ++seed) {
    ConvCase c = random_case(seed);
    c.in_channels /= c.groups;
    c.out_channels /= c.groups;
    c.groups = 1;
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const bool transposed : {true, false}) {
      check<TypeParam>(p, transposed, seed % 4 == 1 ? kReLU : Activation{}, seed, reached);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

/// The kernel has special code for many of them.
TYPED_TEST(Col2imEmulation, AnyNumberOfPhasesAndTapsIsExact) {
  for (std::int64_t stride = 1; stride <= 5; ++stride) {
    for (std::int64_t taps = 1; taps <= 7; ++taps) {
      for (const std::int64_t kernel : {stride * taps, stride * taps - stride / 2}) {
        if (kernel > cuda::kMaxCol2imTaps) continue;
        const ConvCase c{.name = "taps",
                         .in_channels = 3,
                         .out_channels = 1,
                         .input = {2, 24},
                         .kernel = {1, kernel},
                         .stride = {1, stride}};
        SCOPED_TRACE(c);
        Reached reached;
        check<TypeParam>(integer_problem(geometry(c)), true, {}, 1, reached);
        EXPECT_FALSE(reached.empty()) << "no plan takes it";
      }
    }
  }
}

TYPED_TEST(Col2imEmulation, EveryPathIsExact) {
  Reached reached;
  const ConvCase cases[] = {
      {.name = "upscale",
       .batch = 2,
       .in_channels = 18,
       .out_channels = 1,
       .input = {20, 72},
       .kernel = {9, 9},
       .stride = {3, 3},
       .padding = {4, 4},
       .output_padding = {2, 2}},
      {.name = "image",
       .batch = 2,
       .in_channels = 70,
       .out_channels = 3,
       .input = {9, 132},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "last", .batch = 3, .in_channels = 40, .out_channels = 3, .input = {12, 64}, .kernel = {3, 3}},
      {.name = "wide", .in_channels = 9, .out_channels = 1, .input = {1, 20000}, .kernel = {1, 7}, .padding = {0, 3}},
      {.name = "wider",
       .in_channels = 5,
       .out_channels = 2,
       .input = {2, 5000},
       .kernel = {3, 16},
       .stride = {1, 8},
       .dilation = {2, 1}},
      {.name = "holes",
       .in_channels = 33,
       .out_channels = 4,
       .input = {7, 20},
       .kernel = {5, 5},
       .stride = {4, 3},
       .padding = {3, 7},
       .dilation = {2, 3}},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    for (std::uint64_t seed : {0, 12, 1}) {
      for (const bool transposed : {true, false}) {
        check<TypeParam>(integer_problem(geometry(c)), transposed, seed == 0 ? kReLU : Activation{}, seed, reached);
      }
    }
  }
  for (const char* path :
       {"32 columns", "64 columns", "96 columns", "128 columns", "4 depths", "8 depths", "boxes", "elements", "stages",
        "column tiles", "row tiles", "chunks", "rows that overlap", "shifted grid"}) {
    EXPECT_TRUE(reached.contains(path)) << path;
  }
}

}  // namespace
}  // namespace adjoint::testing

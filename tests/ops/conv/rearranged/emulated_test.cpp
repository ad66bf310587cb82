// Operands in another order, on the emulator: rearranged operands give the same convolutions, in the new geometry.
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/layouts/orders.h>
#include <adjoint/tests/ops/conv/layouts/samples_last_emulated_run.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/emulation/emulator.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <adjoint/ops/conv/layouts/cuda/unshuffle.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace adjoint::testing {
namespace {

using Values = std::vector<double>;

/// Elements as a program has them, and as the kernels move them.
template <class T>
class RearrangedEmulation : public ::testing::Test {
 protected:
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;

  /// `values` taken apart; unchanged if nothing moves.
  Values unshuffled(const cuda::Unshuffle& how, const Values& values, std::uint64_t seed) {
    return how.planes == 0 ? values : moved<false>(how, values, how.numel(), seed, seed % 5);
  }
  /// `values` put together; unchanged if nothing moves.
  Values shuffled(const cuda::Unshuffle& how, const Values& values, std::uint64_t seed) {
    return how.planes == 0 ? values
                           : moved<true>(how, values, how.planes * how.extents[0] * how.extents[1], seed, seed % 3);
  }

  /// `values` with samples behind positions; unchanged if nothing moves.
  static Values with_samples_last(const cuda::SamplesLast& how, const Values& values, std::uint64_t seed) {
    if (how.samples == 0) return values;
    Operand<T> to = samples_last<T>(how, values, seed);
    const auto count = static_cast<std::size_t>(how.numel());
    Values result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = cuda::to_float(to.data()[i]);
    return result;
  }

  Values repeated(const Values& values, std::int64_t times, std::uint64_t seed) {
    const std::size_t count = values.size() * static_cast<std::size_t>(times);
    Operand<T> from(values, seed % 5), to(Values(count, 0), seed % 3);
    const auto kernel = cuda::rearranged::repeat_kernel<Bits>;
    const auto blocks = cuda::ceil_div(static_cast<std::int64_t>(count), cuda::rearranged::kThreads);
    emulation::run({.grid = {static_cast<unsigned>(blocks)}, .block = {cuda::rearranged::kThreads}, .seed = seed}, [&] {
      kernel(reinterpret_cast<const Bits*>(from.data()), reinterpret_cast<Bits*>(to.data()),
             static_cast<int>(values.size()), Divider(static_cast<std::uint32_t>(times)));
    });
    EXPECT_TRUE(to.surroundings_are_kept());
    Values result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = cuda::to_float(to.data()[i]);
    return result;
  }

  /// conv and conv_weight of operands in the plan's order.
  void check_conv(const cuda::RearrangedPlan& plan, const ConvProblem& p, std::uint64_t seed) {
    const Values image = unshuffled(plan.image, p.image, seed);
    const Values filter = unshuffled(plan.filter, p.filter, seed + 1);
    expect_rounded(shuffled(plan.feature, oracle::conv(plan.geometry, image, filter, p.feature_bias), seed + 2),
                   oracle::conv(p.geometry, p.image, p.filter, p.feature_bias), plan.feature);
    check_conv_weight(plan, p, seed + 3);
  }

  void check_conv_transpose(const cuda::RearrangedPlan& plan, const ConvProblem& p, std::uint64_t seed) {
    const Values filter = unshuffled(plan.filter, p.filter, seed);
    const Values feature = unshuffled(plan.feature, p.feature, seed + 1);
    const Values bias = repeated(p.image_bias, plan.bias_repetitions, seed + 2);
    const Values image = oracle::conv_transpose(plan.geometry, feature, filter, bias);
    expect_rounded(shuffled(plan.image, image, seed + 3),
                   oracle::conv_transpose(p.geometry, p.feature, p.filter, p.image_bias), plan.image);
    ++taken;
  }

  void check_strides(const ConvCase& c, std::uint64_t seed) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    cuda::RearrangedPlan plan;
    if (cuda::plan_strides_as_channels(p.geometry, false, sizeof(T), plan)) check_conv(plan, p, seed);
    if (cuda::plan_strides_as_channels(p.geometry, true, sizeof(T), plan)) check_conv_transpose(plan, p, seed);
  }

  /// conv_weight of padded rows, as they are or at stride 1.
  void check_padded(const ConvCase& c, std::uint64_t seed) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const bool strided : {true, false}) {
      cuda::RearrangedPlan plan{.geometry = p.geometry};
      if (!strided && !cuda::plan_strides_as_channels(p.geometry, false, sizeof(T), plan)) continue;
      if (!cuda::pad_rows(p.geometry, sizeof(T), plan)) continue;
      EXPECT_EQ(plan.geometry.feature.w * static_cast<std::int64_t>(sizeof(T)) % 16, 0);
      check_conv_weight(plan, p, seed);
    }
  }

  /// conv of an image with padded rows.
  void check_padded_image(const ConvCase& c, std::uint64_t seed) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    cuda::RearrangedPlan plan;
    if (!cuda::pad_image_rows(p.geometry, sizeof(T), plan)) return;
    EXPECT_EQ(plan.geometry.image.w * static_cast<std::int64_t>(sizeof(T)) % 16, 0);
    check_conv(plan, p, seed);
  }

  /// conv_weight of samples that follow each position.
  void check_columns(const ConvCase& c, std::uint64_t seed) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    cuda::RearrangedPlan plan;
    if (cuda::plan_batch_as_columns(p.geometry, sizeof(T), plan)) check_conv_weight(plan, p, seed);
  }

  void check_conv_weight(const cuda::RearrangedPlan& plan, const ConvProblem& p, std::uint64_t seed) {
    const Values image = with_samples_last(plan.image_samples, unshuffled(plan.image, p.image, seed), seed + 1),
                 feature =
                     with_samples_last(plan.feature_samples, unshuffled(plan.feature, p.feature, seed + 2), seed + 3);
    expect_rounded(shuffled(plan.filter, oracle::conv_weight(plan.geometry, image, feature), seed + 4),
                   oracle::conv_weight(p.geometry, p.image, p.feature), plan.filter);
    ++taken;
  }

  /// Values that moved were rounded to T.
  static void expect_rounded(const Values& got, Values expected, const cuda::Unshuffle& how) {
    if (how.planes != 0) {
      for (double& value : expected) value = rounded<T>(value);
    }
    EXPECT_EQ(got, expected);
  }

  /// Takes `values`, misaligned by `offset` elements, apart, and compares each element with its definition.
  void check_apart(const cuda::Unshuffle& u, std::uint64_t offset) {
    Values values(static_cast<std::size_t>(u.planes * u.extents[0] * u.extents[1]));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(1 + i * 7 % 127);
    Values expected;
    for (std::int64_t part = 0; part < u.planes * u.residues[0] * u.residues[1]; ++part) {
      const std::int64_t plane = part / (u.residues[0] * u.residues[1]);
      const Extent2 residue{part / u.residues[1] % u.residues[0], part % u.residues[1]};
      for (std::int64_t block = 0; block < u.blocks[0] * u.blocks[1]; ++block) {
        const std::int64_t h = block / u.blocks[1] * u.stride[0] + residue[0] - u.padding[0];
        const std::int64_t w = block % u.blocks[1] * u.stride[1] + residue[1] - u.padding[1];
        const bool inside = h >= 0 && h < u.extents[0] && w >= 0 && w < u.extents[1];
        expected.push_back(inside ? values[static_cast<std::size_t>((plane * u.extents[0] + h) * u.extents[1] + w)]
                                  : 0);
      }
    }
    EXPECT_EQ((moved<false>(u, values, u.numel(), 1, offset)), expected);
  }

  int taken = 0;
  std::set<std::string> reached;

 private:
  template <bool kBack>
  Values moved(const cuda::Unshuffle& how, const Values& values, std::int64_t count, std::uint64_t seed,
               std::uint64_t offset) {
    // The parts are in a buffer of the library's, which is aligned.
    Operand<T> from(values, kBack ? 0 : offset);
    Operand<T> to(Values(static_cast<std::size_t>(count), std::numeric_limits<double>::quiet_NaN()),
                  kBack ? offset : 0);
    const auto kernel = cuda::rearranged::unshuffle_kernel_of<Bits, kBack>(how);
    emulation::run({.grid = {static_cast<unsigned>(how.tiles())}, .block = {cuda::rearranged::kThreads}, .seed = seed},
                   [&] {
                     kernel(how, reinterpret_cast<const Bits*>(from.data()), reinterpret_cast<Bits*>(to.data()));
                   });
    EXPECT_TRUE(to.surroundings_are_kept());
    reached.insert(how.vector == 1 ? "single elements" : "vectors");
    if (how.tile_planes > 1) reached.insert("tiles of planes");
    if (how.vector > 1 && how.has_whole_planes()) reached.insert("whole planes");
    for (const int axis : {0, 1}) {
      const std::string name = axis == 0 ? "rows" : "columns";
      if (how.residue_tiles[axis].divisor() > 1) reached.insert("tiles of residues of " + name);
      if (how.block_tiles[axis].divisor() > 1) reached.insert("tiles of " + name);
    }
    Values result(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = cuda::to_float(to.data()[i]);
    return result;
  }
};
using Elements = ::testing::Types<float, cuda::FloatElement<kBFloat16>>;
TYPED_TEST_SUITE(RearrangedEmulation, Elements);

TYPED_TEST(RearrangedEmulation, RandomGeometriesAreTheSameAtStrideOne) {
  for (std::uint64_t seed = 1; seed <= 2 * kRandomCases; ++seed) {
    ConvCase c = random_case(seed);
    if (seed % 4 != 0) c.dilation = {1, 1};
    if (output_extents(c).h >= 1 && output_extents(c).w >= 1) this->check_strides(c, seed);
  }
  EXPECT_GE(this->taken, static_cast<int>(kRandomCases));
}

TYPED_TEST(RearrangedEmulation, LargeStridesAreTheSameAtStrideOne) {
  const std::vector<ConvCase> cases{
      {.name = "patches", .in_channels = 5, .out_channels = 3, .input = {2, 3}, .kernel = {16, 16}, .stride = {16, 16}},
      {.name = "fcn",
       .batch = 1,
       .in_channels = 2,
       .out_channels = 2,
       .input = {3, 4},
       .kernel = {64, 64},
       .stride = {32, 32},
       .padding = {16, 16}},
      {.name = "alexnet", .in_channels = 4, .out_channels = 3, .input = {5, 6}, .kernel = {11, 11}, .stride = {4, 4}},
      {.name = "one_axis", .in_channels = 4, .out_channels = 2, .input = {5, 6}, .kernel = {3, 7}, .stride = {1, 6}},
      {.name = "skips", .in_channels = 3, .out_channels = 2, .input = {5, 40}, .kernel = {1, 2}, .stride = {3, 5}},
      {.name = "rows", .in_channels = 2, .out_channels = 1, .input = {30, 300}, .kernel = {2, 4}, .stride = {2, 4}},
      {.name = "residues",  // the last tile of residues has fewer
       .batch = 1,
       .in_channels = 2,
       .out_channels = 3,
       .input = {27, 47},
       .kernel = {4, 3},
       .stride = {4, 1},
       .padding = {2, 3}},
      {.name = "line",
       .rank = 1,
       .in_channels = 3,
       .out_channels = 1,
       .input = {1, 1500},
       .kernel = {1, 25},
       .stride = {1, 4},
       .padding = {0, 11},
       .output_padding = {0, 1}},
      {.name = "groups",
       .in_channels = 4,
       .out_channels = 6,
       .groups = 2,
       .input = {3, 5},
       .kernel = {8, 9},
       .stride = {8, 4},
       .padding = {2, 3}},
      {.name = "small_planes",  // the last tile of planes has fewer
       .batch = 1,
       .in_channels = 1,
       .out_channels = 2113,
       .input = {1, 8},
       .kernel = {1, 2},
       .stride = {1, 2},
       .padding = {0, 1}}};
  std::uint64_t seed = 0;
  for (const ConvCase& c : cases) this->check_strides(c, ++seed);
  EXPECT_EQ(this->taken, 19);
  EXPECT_EQ(this->reached,
            (std::set<std::string>{"single elements", "tiles of columns", "tiles of planes",
                                   "tiles of residues of rows", "tiles of rows", "vectors", "whole planes"}));
}

TYPED_TEST(RearrangedEmulation, RowsBeginAnywhereInTheirVectors) {
  struct Move {
    Extent2 image, kernel, stride, padding;
  };
  const std::vector<Move> moves{{{5, 13}, {4, 4}, {2, 2}, {1, 1}},  {{7, 9}, {3, 3}, {2, 2}, {0, 0}},
                                {{4, 65}, {3, 4}, {3, 3}, {2, 20}}, {{3, 12}, {4, 4}, {1, 4}, {1, 3}},
                                {{2, 70}, {2, 3}, {1, 8}, {0, 9}},  {{66, 97}, {64, 64}, {32, 32}, {16, 16}},
                                {{1, 3}, {1, 4}, {1, 2}, {0, 30}},  {{5, 80}, {4, 2}, {3, 5}, {0, 1}}};
  for (const Move& move : moves) {
    for (std::uint64_t offset = 0; offset < 16; ++offset) {
      ConvGeometry g{.batch = 2, .image_channels = 3, .feature_channels = 1};
      g.image = move.image;
      g.kernel = move.kernel;
      g.stride = move.stride;
      g.padding = move.padding;
      for (const int axis : {0, 1})
        g.feature.in_plane(axis) = (g.image.in_plane(axis) + 2 * g.padding.in_plane(axis) - g.kernel.in_plane(axis)) /
                                       g.stride.in_plane(axis) +
                                   1;
      cuda::RearrangedPlan plan;
      ASSERT_TRUE(cuda::plan_strides_as_channels(g, false, sizeof(TypeParam), plan));
      ASSERT_GT(plan.image.vector, 1);
      this->check_apart(plan.image, offset);
    }
  }
  for (const std::int64_t width : {3, 13, 65, 203}) {
    ConvGeometry g{.batch = 1, .image_channels = 2, .feature_channels = 2};
    g.image = g.feature = {7, width};
    g.kernel = {3, 3};
    g.padding = {1, 1};
    cuda::RearrangedPlan plan{.geometry = g};
    ASSERT_TRUE(cuda::pad_rows(g, sizeof(TypeParam), plan));
    for (std::uint64_t offset = 0; offset < 16; ++offset) this->check_apart(plan.image, offset);
  }
}

// Planes enough for the tiles of 16-bit elements to be larger.
TYPED_TEST(RearrangedEmulation, ManyPlanesHaveLargeTiles) {
  const ConvGeometry g{.rank = 2,
                       .batch = 1,
                       .image_channels = 1600,
                       .feature_channels = 1,
                       .image = {65, 65},
                       .feature = {32, 32},
                       .kernel = {3, 3},
                       .stride = {2, 2},
                       .padding = {0, 0},
                       .dilation = {1, 1}};
  cuda::RearrangedPlan plan;
  ASSERT_TRUE(cuda::plan_strides_as_channels(g, false, sizeof(TypeParam), plan));
  EXPECT_EQ(plan.image.has_whole_planes(), sizeof(TypeParam) == 2);
  this->check_apart(plan.image, 3);
}

TYPED_TEST(RearrangedEmulation, PaddedRowsGiveTheSameFilters) {
  for (std::uint64_t seed = 1; seed <= 2 * kRandomCases; ++seed) this->check_padded(random_case(seed), seed);
  const ConvCase one_tap{.in_channels = 3, .out_channels = 2, .input = {1, 75}, .kernel = {1, 1}};
  this->check_padded(one_tap, 1);
  EXPECT_GE(this->taken, static_cast<int>(2 * kRandomCases));
}

TYPED_TEST(RearrangedEmulation, PaddedImagesGiveTheSameFeatures) {
  for (std::uint64_t seed = 1; seed <= 2 * kRandomCases; ++seed) this->check_padded_image(random_case(seed), seed);
  EXPECT_GE(this->taken, static_cast<int>(kRandomCases));
}

TYPED_TEST(RearrangedEmulation, SamplesAreColumnsOfTheSameFilters) {
  for (std::uint64_t seed = 1; seed <= 2 * kRandomCases; ++seed) this->check_columns(random_case(seed), seed);
  const ConvCase planes{.batch = 9,
                        .in_channels = 3,
                        .out_channels = 2,
                        .input = {4, 3},
                        .kernel = {4, 4},
                        .stride = {2, 2},
                        .padding = {1, 1}};
  this->check_columns(planes, 1);
  const ConvCase rows{.rank = 1,
                      .batch = 70,
                      .in_channels = 2,
                      .out_channels = 3,
                      .input = {1, 11},
                      .kernel = {1, 5},
                      .stride = {1, 3},
                      .padding = {0, 2},
                      .dilation = {1, 2}};
  this->check_columns(rows, 2);
  EXPECT_GE(this->taken, static_cast<int>(kRandomCases / 2));
}

// Rows that are one stride long become channels of one column.
TYPED_TEST(RearrangedEmulation, RowsOfOneStrideAreAColumn) {
  std::uint64_t seed = 0;
  for (const std::int64_t rows : {2, 9, 70}) {
    for (const std::int64_t groups : {1, 3}) {
      const ConvCase c{.batch = 2,
                       .in_channels = groups * 3,
                       .out_channels = groups * 2,
                       .groups = groups,
                       .input = {rows, 1},
                       .kernel = {1, 150},
                       .stride = {1, 150}};
      const ConvProblem p = integer_problem(geometry(c));
      cuda::RearrangedPlan plan;
      ASSERT_TRUE(cuda::plan_strides_as_channels(p.geometry, true, sizeof(TypeParam), plan));
      ASSERT_EQ(plan.image.blocks[1], 1);
      this->check_conv(plan, p, ++seed);
      this->check_conv_transpose(plan, p, ++seed);
    }
  }
  EXPECT_EQ(this->reached, (std::set<std::string>{"single elements", "tiles of residues of columns", "tiles of rows"}));
}

TEST(RearrangedPlan, RefusesWhatStrideOneDoesNotHave) {
  cuda::RearrangedPlan plan;
  const ConvCase strided{.input = {4, 4}, .kernel = {2, 2}, .stride = {2, 2}};
  EXPECT_TRUE(cuda::plan_strides_as_channels(geometry(strided), true, 4, plan));
  ConvCase c = strided;
  c.stride = {1, 1};
  EXPECT_FALSE(cuda::plan_strides_as_channels(geometry(c), false, 4, plan)) << "no stride";
  c = strided;
  c.dilation = {1, 3};
  EXPECT_FALSE(cuda::plan_strides_as_channels(geometry(c), false, 4, plan)) << "stride and dilation on an axis";
  c = strided;
  c.kernel = {1, 2};
  EXPECT_TRUE(cuda::plan_strides_as_channels(geometry(c), false, 4, plan));
  EXPECT_FALSE(cuda::plan_strides_as_channels(geometry(c), true, 4, plan)) << "rows without a tap";
  c = strided;
  c.dilation = {3, 1};
  EXPECT_FALSE(cuda::plan_batch_as_columns(geometry(c), 4, plan)) << "stride and dilation on an axis";
  c = strided;
  c.batch = 0;
  EXPECT_FALSE(cuda::plan_batch_as_columns(geometry(c), 4, plan)) << "no samples";
}

}  // namespace
}  // namespace adjoint::testing

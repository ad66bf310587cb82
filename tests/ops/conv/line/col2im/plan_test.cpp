// The schedule of the kernel for few output channels, replayed without a GPU: every product of a source position with
// the filter reaches the results that it belongs to, once, and every result is stored once; reads meet in no bank.
#include <adjoint/ops/conv/line/col2im/plan.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace adjoint::testing {
namespace {

using cuda::Arithmetic;
using cuda::Col2imPlan;
using cuda::Col2imTile;

/// A tile's results, by the plan's tables: [row of positions of the tile][phase_h][channel][phase_w][position].
std::vector<double> add_up(const ConvProblem& problem, bool transposed, const Col2imPlan& p, const Col2imTile& tile) {
  const std::vector<double>& source = transposed ? problem.feature : problem.image;
  const std::int64_t pitch = p.tile_columns, row_results = p.channels * p.w.phases * pitch;
  std::vector<double> results(static_cast<std::size_t>(tile.rows * p.h.phases * row_results), 0);
  for (std::int32_t row = tile.first_row; tile.chunks > 0 && row < tile.end_row; ++row) {
    for (std::int32_t chunk = 0; chunk < tile.chunks; ++chunk) {
      const std::int32_t column = tile.first_column + chunk * cuda::kCol2imChunk;
      // [column of the product][source column], between margins.
      std::vector<double> sums(static_cast<std::size_t>(p.sum_elements()), 0);
      for (std::int32_t n = 0; n < p.used_columns(); ++n) {
        const std::int32_t taps = p.kernel_h * p.kernel_w;
        for (std::int32_t i = 0; i < cuda::kCol2imChunk && column + i < p.w.source; ++i) {
          double sum = 0;
          for (std::int32_t c = 0; c < p.source_channels; ++c) {
            const std::int64_t place = n / taps * p.filter_channel + c * p.filter_source + n % taps;
            const std::int64_t plane = std::int64_t{tile.sample} * p.source_channels + c;
            sum += problem.filter[static_cast<std::size_t>(place)] *
                   source[static_cast<std::size_t>((plane * p.h.source + row) * p.w.source + column + i)];
          }
          sums[static_cast<std::size_t>(n * p.sum_pitch + p.margin + i)] = sum;
        }
      }
      for (std::int32_t pair = 0; pair < p.channels * p.kernel_h; ++pair) {
        const std::int32_t tap = pair % p.kernel_h, q_row = row - p.tap_offset_h[tap] - tile.row;
        if (q_row < 0 || q_row >= tile.rows) continue;
        for (std::int32_t position = 0; position < p.reached_positions(); ++position) {
          const std::int32_t q = column - p.w.offset[p.w.offsets - 1] + position - tile.column;
          if (q < 0 || q >= tile.columns) continue;
          const std::int64_t first = pair * p.kernel_w * p.sum_pitch + p.margin - p.w.span() + position;
          for (std::int32_t phase = 0; phase < p.w.phases; ++phase) {
            double& result = results[static_cast<std::size_t>((q_row * p.h.phases + p.tap_phase_h[tap]) * row_results +
                                                              (pair / p.kernel_h * p.w.phases + phase) * pitch + q)];
            for (std::int32_t i = 0; i < p.phase_taps && p.tap_place[phase][i] != cuda::kNoCol2imTap; ++i) {
              result += sums.at(static_cast<std::size_t>(first + p.tap_place[phase][i] / 4));
            }
          }
        }
      }
    }
  }
  return results;
}

/// Runs the plan and checks that every result is stored exactly once, with its exact value.
void replay(const ConvProblem& problem, bool transposed, const Col2imPlan& p) {
  const std::vector<double> expected =
      transposed ? oracle::conv_transpose(problem.geometry, problem.feature, problem.filter, {})
                 : oracle::conv(problem.geometry, problem.image, problem.filter, {});
  std::vector<int> stored(expected.size(), 0);
  for (std::int32_t index = 0; index < p.blocks(); ++index) {
    const Col2imTile tile = cuda::col2im_tile(p, index);
    const std::vector<double> results = add_up(problem, transposed, p, tile);
    std::size_t i = 0;
    for (std::int32_t row = 0; row < tile.rows; ++row)
      for (std::int32_t phase_h = 0; phase_h < p.h.phases; ++phase_h)
        for (std::int32_t channel = 0; channel < p.channels; ++channel)
          for (std::int32_t phase_w = 0; phase_w < p.w.phases; ++phase_w)
            for (std::int32_t q = 0; q < p.tile_columns; ++q, ++i) {
              const std::int64_t y = (tile.row + row) * p.h.phases + phase_h - p.h.shift;
              const std::int64_t x = (tile.column + q) * p.w.phases + phase_w - p.w.shift;
              if (q >= tile.columns || y < 0 || y >= p.h.result || x < 0 || x >= p.w.result) continue;
              const std::int64_t plane = std::int64_t{tile.sample} * p.channels + channel;
              const auto to = static_cast<std::size_t>((plane * p.h.result + y) * p.w.result + x);
              ASSERT_EQ(results[i], expected[to]) << "row " << y << ", column " << x;
              ++stored[to];
            }
  }
  for (const int count : stored) ASSERT_EQ(count, 1);
}

TEST(Col2imPlan, EveryProductReachesItsResultOnce) {
  int plans = 0, column_tiles = 0, row_tiles = 0;
  int seed = 0;
  for (ConvCase c : small_conv_cases()) {
    if (c.rank == 3) continue;
    c.in_channels = 1 + ++seed % 5;
    c.out_channels = 1 + seed % 3;
    c.groups = 1;
    if (seed % 7 == 0) c.input.w += 300;
    SCOPED_TRACE(c);
    const ConvGeometry g = geometry(c);
    for (const bool transposed : {false, true}) {
      Col2imPlan p;
      if (!cuda::plan_col2im(g, transposed, seed % 2 == 0 ? Arithmetic::kFloat32 : Arithmetic::kTF32, {}, p)) continue;
      ++plans;
      column_tiles += p.column_tiles > 1;
      row_tiles += p.row_tiles > 1;
      EXPECT_LE(p.smem_bytes(), 232448 / p.blocks_per_sm);
      replay(integer_problem(g), transposed, p);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(plans, 100);
  EXPECT_GT(column_tiles, 5);
  EXPECT_GT(row_tiles, 50);
}

TEST(Col2imPlan, ReadsMeetInNoBank) {
  Col2imPlan p;
  ASSERT_TRUE(cuda::plan_col2im(
      geometry({.in_channels = 56, .out_channels = 1, .input = {9, 70}, .kernel = {9, 9}, .stride = {3, 3}}), true,
      Arithmetic::kTF32, {}, p));
  // Sixteen lanes read eight bytes each together: lane / 4 is a pair of columns, lane % 4 one of two channels.
  for (const int odd : {0, 1}) {
    for (int half = 0; half < 2; ++half) {
      std::set<int> banks;
      for (int lane = 16 * half; lane < 16 * half + 16; ++lane) {
        banks.insert(cuda::col2im_source_place(p, 8 + lane % 4 * 2 + odd, lane / 4 * 2) / 8 % 16);
      }
      EXPECT_EQ(banks.size(), 16U);
    }
  }
  // And store eight bytes each: two columns of the product a lane, one after the other.
  for (int half = 0; half < 2; ++half) {
    std::set<int> banks;
    for (int lane = 16 * half; lane < 16 * half + 16; ++lane) {
      banks.insert((lane % 4 * 2 * p.sum_pitch + lane / 4 * 2) / 2 % 16);
    }
    EXPECT_EQ(banks.size(), 16U);
  }
  // Every channel is a unit of the filter, and has its own place in a stage.
  std::set<int> channels, places;
  for (int four = 0; four < p.padded_channels() / 4; ++four) {
    for (int unit = 0; unit < 4; ++unit) channels.insert(cuda::col2im_filter_channel(four, unit));
  }
  EXPECT_EQ(channels.size(), static_cast<std::size_t>(p.padded_channels()));
  EXPECT_EQ(*channels.rbegin(), p.padded_channels() - 1);
  for (int channel = 0; channel < 8 * p.depths; ++channel) {
    for (int column = 0; column < cuda::kCol2imChunk; ++column)
      places.insert(cuda::col2im_source_place(p, channel, column));
  }
  EXPECT_EQ(places.size(), static_cast<std::size_t>(p.stage_bytes() / 4));
  EXPECT_EQ(*places.rbegin(), p.stage_bytes() - 4);
}

TEST(Col2imPlan, RefusesWhatTheKernelDoesNotTake) {
  Col2imPlan p;
  EXPECT_FALSE(cuda::plan_col2im(geometry({.input = {8, 8}, .kernel = {3, 3}}), true, Arithmetic::kBFloat16, {}, p));
  EXPECT_FALSE(cuda::plan_col2im(geometry({.out_channels = 43, .input = {8, 8}, .kernel = {3, 3}}), true,
                                 Arithmetic::kTF32, {}, p));
  EXPECT_FALSE(
      cuda::plan_col2im(geometry({.in_channels = 4, .out_channels = 4, .groups = 2, .input = {8, 8}, .kernel = {3, 3}}),
                        true, Arithmetic::kTF32, {}, p));
  EXPECT_FALSE(cuda::plan_col2im(geometry({.input = {9, 9}, .kernel = {3, 3}, .stride = {2, 1}}), false,
                                 Arithmetic::kTF32, {}, p));
  EXPECT_FALSE(cuda::plan_col2im(geometry({.input = {1, 99}, .kernel = {1, 3}, .dilation = {1, 40}}), true,
                                 Arithmetic::kTF32, {}, p));
  // Rows of results that shared memory does not hold in as many column tiles as are tried, and more bytes than 32 bits.
  const ConvCase wide{.input = {1, 180'000'000}, .kernel = {3, 3}, .padding = {1, 1}};
  EXPECT_FALSE(cuda::plan_col2im(geometry(wide), false, Arithmetic::kTF32, {}, p));
  // Tiles of two positions each, of 128 results a channel: 2^24, and 2^31.
  const auto tiles_of = [&](std::int64_t batch) {
    const ConvCase c{.batch = batch, .in_channels = 8, .out_channels = 128, .input = {1, 4096}, .stride = {8, 16}};
    return cuda::plan_col2im(geometry(c), true, Arithmetic::kTF32, {}, p) ? p.batch * p.row_tiles * p.column_tiles : 0;
  };
  EXPECT_EQ(tiles_of(1 << 13), 1 << 24);
  EXPECT_EQ(tiles_of(1 << 20), 0);
}

TEST(Col2imPlan, TakesTheMostTapsOfAnAxis) {
  for (const bool transposed : {false, true}) {
    Col2imPlan p;
    EXPECT_TRUE(
        cuda::plan_col2im(geometry({.input = {8, 40}, .kernel = {1, 32}}), transposed, Arithmetic::kTF32, {}, p));
    EXPECT_TRUE(
        cuda::plan_col2im(geometry({.input = {40, 8}, .kernel = {32, 1}}), transposed, Arithmetic::kTF32, {}, p));
  }
}

}  // namespace
}  // namespace adjoint::testing

// The schedule of the kernels that treat a convolution as one line of positions, replayed: every result belongs to one
// position of one tile, and its products are those in the definition, each once, read from its source's place in the
// line. For both plans that build on it: narrow and packed.
#include <adjoint/ops/conv/line/narrow/plan.h>
#include <adjoint/ops/conv/line/packed/plan.h>
#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

using cuda::Arithmetic;
using cuda::LineAxis;
using cuda::LinePlan;
using cuda::NarrowPlan;
using cuda::PackedPlan;

/// Source and tap of one product along an axis.
using Product = std::tuple<std::int64_t, std::int64_t>;

/// Of result `i` by definition, in the order of sources.
std::vector<Product> defined_products(const ConvGeometry& g, std::size_t axis, bool transposed, std::int64_t i) {
  std::vector<Product> products;
  for (std::int64_t k = 0; k < g.kernel.in_plane(axis); ++k) {
    if (!transposed) {
      products.emplace_back(image_position(i, k, g.stride.in_plane(axis), g.padding.in_plane(axis),
                                           g.dilation.in_plane(axis)),
                            k);
      continue;
    }
    const std::int64_t distance = i + g.padding.in_plane(axis) - k * g.dilation.in_plane(axis);
    if (distance % g.stride.in_plane(axis) == 0) products.emplace_back(distance / g.stride.in_plane(axis), k);
  }
  std::sort(products.begin(), products.end());
  return products;
}

void expect_products(const ConvGeometry& g, std::size_t axis, bool transposed, const LineAxis& a) {
  std::vector<int> seen(static_cast<std::size_t>(a.result));
  for (std::int32_t q = 0; q < a.positions; ++q) {
    for (std::int32_t phase = 0; phase < a.phases; ++phase) {
      const std::int32_t i = q * a.phases + phase - a.shift;
      if (i < 0 || i >= a.result) continue;
      ++seen[static_cast<std::size_t>(i)];
      std::vector<Product> products;
      for (std::int32_t o = 0; o < a.offsets; ++o) {
        if (a.tap[phase][o] >= 0) products.emplace_back(q + a.offset[o], a.tap[phase][o]);
      }
      ASSERT_EQ(products, defined_products(g, axis, transposed, i));
    }
  }
  for (const int count : seen) ASSERT_EQ(count, 1);
}

/// Every position of the grid belongs to one place of one tile, and the values it reads are in the tile's stage.
void expect_line(const LinePlan& p) {
  const auto positions = static_cast<std::size_t>(p.h.positions) * static_cast<std::size_t>(p.w.positions);
  std::vector<int> seen(positions * static_cast<std::size_t>(p.batch));
  for (std::int32_t block = 0; block < p.blocks(); block += p.result_blocks) {
    const cuda::LineTile tile = cuda::line_tile(p, block);
    if (tile.group > 0) continue;
    ASSERT_EQ(tile.first_result, 0);
    for (std::int32_t i = 0; i < p.tile_positions; ++i) {
      const cuda::LinePlace q = cuda::line_place(p, tile.first + i);
      const std::int32_t column = q.column + tile.column;
      if (q.sample >= p.batch || q.row >= p.h.positions || q.column >= p.tile_columns || column >= p.w.positions)
        continue;
      ++seen[static_cast<std::size_t>(q.sample) * positions +
             static_cast<std::size_t>(q.row) * static_cast<std::size_t>(p.w.positions) +
             static_cast<std::size_t>(column)];
      for (const std::int32_t h : {0, p.h.offsets - 1}) {
        for (const std::int32_t w : {0, p.w.offsets - 1}) {
          // As the kernel stages it: rows count from the first offset, columns from first_column.
          const std::int32_t at = (p.h.offset[h] - p.h.offset[0]) * p.pitch + p.w.offset[w] - p.first_column;
          ASSERT_LT(i + at, p.length);
          const cuda::LinePlace source = cuda::line_place(p, tile.first + i + at);
          ASSERT_EQ(source.sample, q.sample);
          ASSERT_EQ(source.row + p.h.offset[0], q.row + p.h.offset[h]);
          ASSERT_EQ(source.column + p.first_column, q.column + p.w.offset[w]);
        }
      }
    }
  }
  for (const int count : seen) ASSERT_EQ(count, 1);
}

/// The same of tiles that are rows of a plane, or planes.
void expect_tiles(const PackedPlan& p) {
  const auto positions = static_cast<std::size_t>(p.h.positions) * static_cast<std::size_t>(p.w.positions);
  std::vector<int> seen(positions * static_cast<std::size_t>(p.batch));
  for (std::int32_t block = 0; block < p.blocks(); ++block) {
    const cuda::PackedTile tile = cuda::packed_tile(p, block);
    ASSERT_LT(tile.group, p.groups);
    if (tile.group > 0) continue;
    for (std::int32_t i = 0; i < p.tile_positions; ++i) {
      const cuda::LinePlace q = cuda::packed_place(p, tile, i);
      if (!cuda::is_position(p, tile, q) || q.column >= p.w.positions) continue;
      ++seen[static_cast<std::size_t>(q.sample) * positions +
             static_cast<std::size_t>(q.row) * static_cast<std::size_t>(p.w.positions) +
             static_cast<std::size_t>(q.column)];
      for (const std::int32_t h : {0, p.h.offsets - 1}) {
        for (const std::int32_t w : {0, p.w.offsets - 1}) {
          const std::int32_t at = p.offset_place(h, w);
          ASSERT_LT(i + at, p.length);
          const cuda::LinePlace source = cuda::packed_place(p, tile, i + at);
          ASSERT_EQ(source.sample, q.sample);
          ASSERT_EQ(source.row + p.h.offset[0], q.row + p.h.offset[h]);
          ASSERT_EQ(source.column + p.first_column, q.column + p.w.offset[w]);
        }
      }
    }
  }
  for (const int count : seen) ASSERT_EQ(count, 1);
}

/// Each of a group's results belongs to one block of results.
void expect_results(const LinePlan& p) {
  EXPECT_GE(p.result_blocks * p.results, p.group_results());
  EXPECT_LT((p.result_blocks - 1) * p.results, p.group_results()) << "a block without results";
  for (std::int32_t m = 0; m < p.group_results(); ++m) {
    const cuda::LineResult r = cuda::line_result(p, m);
    ASSERT_EQ((r.channel * p.h.phases + r.phase_h) * p.w.phases + r.phase_w, m);
    ASSERT_LT(r.channel, p.channels);
  }
}

/// The replayed features of the cases.
struct Replayed {
  int plans = 0, shifted = 0;
};

template <class Plan>
void replay(const ConvGeometry& g, bool transposed, const Plan& p, Replayed& replayed) {
  ++replayed.plans;
  replayed.shifted += p.h.shift > 0 || p.w.shift > 0;
  expect_products(g, 0, transposed, p.h);
  expect_products(g, 1, transposed, p.w);
  if constexpr (std::is_same_v<Plan, PackedPlan>) {
    expect_tiles(p);
  } else {
    expect_line(p);
  }
  expect_results(p);
}

TEST(LinePlan, EveryProductOfEveryResultIsMadeOnce) {
  Replayed narrow, packed;
  for (const ConvCase& c : planar_conv_cases()) {
    SCOPED_TRACE(c);
    const ConvGeometry g = geometry(c);
    for (const bool transposed : {false, true}) {
      for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kBFloat16}) {
        NarrowPlan narrow_plan;
        if (cuda::plan_narrow(g, transposed, arithmetic, narrow_plan)) replay(g, transposed, narrow_plan, narrow);
        if (::testing::Test::HasFatalFailure()) return;
      }
      for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kFloat32, Arithmetic::kBFloat16}) {
        PackedPlan packed_plan;
        if (cuda::plan_packed(g, transposed, arithmetic, packed_plan)) replay(g, transposed, packed_plan, packed);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(narrow.plans, 500);
  EXPECT_GT(narrow.shifted, 20);
  EXPECT_GT(packed.plans, 500);
  EXPECT_GT(packed.shifted, 20);
}

TEST(LinePlan, LeavesConvWithAStrideToOthers) {
  NarrowPlan narrow;
  PackedPlan packed;
  for (const ConvCase& c : {ConvCase{.name = "stride", .input = {8, 8}, .kernel = {3, 3}, .stride = {2, 1}},
                            ConvCase{.name = "many_offsets", .input = {8, 8}, .kernel = {33, 1}}}) {
    SCOPED_TRACE(c);
    EXPECT_FALSE(cuda::plan_narrow(geometry(c), false, Arithmetic::kTF32, narrow));
    EXPECT_FALSE(cuda::plan_packed(geometry(c), false, cuda::Arithmetic::kTF32, packed));
  }
}

TEST(NarrowPlan, StaysInsideSharedMemoryAndKeepsRowsAligned) {
  for (std::int64_t width = 1; width <= 9000; width = width * 5 / 4 + 1) {
    for (const std::int64_t kernel : {1, 3, 9, 15}) {
      for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kBFloat16}) {
        const ConvGeometry g = geometry({.in_channels = 40,
                                         .out_channels = 3,
                                         .input = {50, width},
                                         .kernel = {kernel, kernel},
                                         .padding = {0, 0}});
        NarrowPlan plan;
        ASSERT_TRUE(cuda::plan_narrow(g, true, arithmetic, plan)) << width << " " << kernel;
        EXPECT_LE(plan.smem_bytes(), 80 * 1024);
        for (const std::int32_t length : {plan.pitch, plan.plane, plan.length, plan.first_column}) {
          EXPECT_EQ(length % plan.vector, 0);
        }
        EXPECT_TRUE(plan.column_tiles == 1 || plan.tile_columns % plan.vector == 0);
      }
    }
  }
}

TEST(PackedPlan, StaysInsideSharedMemoryAndItsDescriptors) {
  int planned = 0;
  for (std::int64_t width = 1; width <= 9000; width = width * 5 / 4 + 1) {
    for (const std::int64_t kernel : {1, 3, 7}) {
      for (const std::int64_t channels : {3, 16, 30, 64}) {
        for (const Arithmetic arithmetic : {Arithmetic::kTF32, Arithmetic::kFloat32, Arithmetic::kBFloat16}) {
          const ConvGeometry g =
              geometry({.in_channels = 40, .out_channels = channels, .input = {50, width}, .kernel = {kernel, kernel}});
          PackedPlan plan;
          if (!cuda::plan_packed(g, true, arithmetic, plan)) continue;
          ++planned;
          EXPECT_LE(plan.smem_bytes(), 227 * 1024);
          EXPECT_LT(plan.length, 1 << 14) << "a descriptor counts 16 bytes in 14 bits";
          EXPECT_GE(plan.raw_stages, 1);
          EXPECT_GE(plan.w.offsets, kernel);
          EXPECT_LE(plan.w.offsets, kernel + 1) << "an offset that only fills up is next to the others";
          EXPECT_EQ(plan.row_products() * plan.stack, plan.w.offsets);
          EXPECT_GE(plan.product_positions(), plan.tile_positions);
          EXPECT_EQ(plan.pitch % 8, 0);
          EXPECT_LE(plan.source_rows(), 256);
          EXPECT_GE(plan.pitch, plan.tile_columns + plan.w.offset[plan.w.offsets - 1] - plan.first_column);
          EXPECT_EQ(plan.first_column % plan.vector, 0);
          EXPECT_LE(channels * plan.stack, cuda::kPackedResults);
          EXPECT_GE(plan.stages() * plan.stage_channels(), plan.source_channels);
        }
      }
    }
  }
  EXPECT_GT(planned, 500);
}

TEST(PackedPlan, LeavesManyResultsAndUnevenOffsetsToOthers) {
  PackedPlan plan;
  EXPECT_FALSE(cuda::plan_packed(geometry({.out_channels = 65, .input = {8, 8}, .kernel = {3, 3}}), true,
                                 cuda::Arithmetic::kTF32, plan));
  // Stride 2, dilation 3: taps read the source at 0, -1 and -3, or on the shifted grid at 0, -2 and -3.
  EXPECT_FALSE(cuda::plan_packed(geometry({.input = {1, 60}, .kernel = {1, 3}, .stride = {1, 2}, .dilation = {1, 3}}),
                                 true, cuda::Arithmetic::kTF32, plan));
}

}  // namespace
}  // namespace adjoint::testing

// The addition of splits of conv_weight's tensor-core kernels on the emulator: how threads share it, and that it is
// always exact.
#include <adjoint/ops/conv/weight/plan.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/weight/cuda/splits.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint::testing {
namespace {

// Of narrow tiles, too, when there are many.
TEST(WeightAddGrid, BlocksDivideTiles) {
  for (const std::int64_t channels : {2, 4, 8, 24, 60, 140}) {
    SCOPED_TRACE(channels);
    const std::int64_t groups = 32768 / channels;
    cuda::WeightPlan plan;
    ASSERT_TRUE(cuda::plan_weight(geometry({.in_channels = groups * channels,
                                            .out_channels = groups * channels,
                                            .groups = groups,
                                            .input = {4, 4},
                                            .kernel = {3, 3},
                                            .padding = {1, 1}}),
                                  cuda::Arithmetic::kBFloat16, {}, plan));
    const cuda::weight::AddGrid grid = cuda::weight::add_grid(plan);
    const std::int32_t together = grid.columns * grid.rounds;
    EXPECT_EQ(plan.tile_columns % together, 0);
    EXPECT_EQ(grid.blocks * together, plan.blocks_per_split() * plan.tile_columns);
  }
}

/// Whatever an AddGrid depends on.
cuda::WeightPlan many_tiles(std::int32_t tiles, cuda::WeightTile tile, std::int32_t splits) {
  cuda::WeightPlan plan{};
  plan.groups = plan.channel_blocks = plan.tap_blocks = 1;
  plan.column_blocks = tiles;
  plan.tile_rows = tile.rows;
  plan.tile_columns = tile.columns;
  plan.splits = splits;
  return plan;
}

TEST(WeightAddGrid, UnitsAreEachSumOfEachSplitOnce) {
  for (const cuda::WeightTile tile : cuda::kWgmmaWeightTiles) {
    for (const std::int32_t tiles : {1, 3, 72, 600}) {
      for (const std::int32_t splits : {1, 2, 3, 4, 5, 8, 9, 16, 33}) {
        SCOPED_TRACE(::testing::Message()
                     << tiles << " tiles " << tile.rows << " x " << tile.columns << ", splits " << splits);
        const cuda::WeightPlan plan = many_tiles(tiles, tile, splits);
        const cuda::weight::AddGrid grid = cuda::weight::add_grid(plan);
        const std::int32_t together = grid.columns * grid.rounds, vectors = grid.columns * tile.rows / 4;
        EXPECT_EQ(static_cast<std::int32_t>(grid.tile_blocks.divisor()) * together, tile.columns);
        EXPECT_EQ(grid.blocks * together, std::int64_t{tiles} * tile.columns);
        EXPECT_LE(grid.smem_bytes, std::size_t{48} << 10);
        EXPECT_TRUE(grid.thread_units == 1 || grid.thread_units * grid.splits <= cuda::weight::kAddAtOnce);
        std::vector<int> times(static_cast<std::size_t>(vectors * splits));
        for (std::int32_t i = 0; i < grid.units; ++i) {
          const cuda::weight::AddUnit unit = cuda::weight::add_unit(plan, grid, i);
          EXPECT_LE(unit.end_split - unit.first_split, grid.splits);
          for (std::int32_t split = unit.first_split; split < unit.end_split; ++split)
            ++times.at(static_cast<std::size_t>(unit.vector * splits + split));
        }
        EXPECT_EQ(std::ranges::count(times, 1), std::ssize(times));
      }
    }
  }
}

// Of large filters, of small ones with many splits, and in between.
TEST(WeightAddGrid, ThreadsHaveUnitsAndMultiprocessorsBlocks) {
  for (const cuda::WeightPlan& plan :
       {many_tiles(72, {256, 128}, 5), many_tiles(8, {256, 128}, 16), many_tiles(32, {256, 128}, 4),
        many_tiles(256, {256, 128}, 1), many_tiles(96, {384, 64}, 3), many_tiles(9, {768, 32}, 33)}) {
    const cuda::weight::AddGrid grid = cuda::weight::add_grid(plan);
    SCOPED_TRACE(::testing::Message() << plan.column_blocks << " tiles of " << plan.tile_rows << ", splits "
                                      << plan.splits);
    EXPECT_GE(grid.units, cuda::weight::kAddThreads);
    EXPECT_GE(grid.blocks, 132);
  }
}

// The settings of larger filters: several units together, several rounds, one lane.
TEST(WeightAddSplits, AreExactOnAnyGrid) {
  struct Choice {
    std::int32_t splits, log2_lanes, thread_units, columns, rounds;
  };
  for (const Choice& choice : {Choice{1, 0, 1, 1, 1}, Choice{1, 0, 4, 8, 2}, Choice{2, 0, 4, 16, 1},
                               Choice{3, 0, 2, 2, 4}, Choice{5, 0, 1, 4, 2}, Choice{5, 1, 1, 4, 2},
                               Choice{16, 1, 1, 2, 2}, Choice{19, 0, 1, 8, 2}, Choice{33, 3, 1, 2, 1}}) {
    SCOPED_TRACE(::testing::Message() << "splits " << choice.splits << ", lanes " << (1 << choice.log2_lanes)
                                      << ", units " << choice.thread_units << ", columns " << choice.columns);
    cuda::WeightPlan plan;
    ASSERT_TRUE(cuda::plan_wgmma_weight(geometry({.in_channels = 40,  // features
                                                  .out_channels = 37,
                                                  .input = {8, 8},
                                                  .kernel = {3, 3},
                                                  .padding = {1, 1}}),
                                        cuda::Arithmetic::kTF32, {}, plan, {384, 16}));
    plan.splits = choice.splits;
    const std::int64_t blocks = plan.blocks_per_split(), tile = std::int64_t{plan.tile_rows} * plan.tile_columns;
    std::vector<float> partial(static_cast<std::size_t>(plan.splits * blocks * tile));
    for (std::size_t i = 0; i < partial.size(); ++i) partial[i] = static_cast<float>(i * 2654435761U % 1021) - 510;
    std::vector<double> expected(37 * 40 * 9);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const cuda::WeightWork work = cuda::weight_work(plan, block);
      for (std::int64_t i = 0; i < tile; ++i) {
        const cuda::WeightRow row = cuda::weight_row(plan, work, static_cast<std::int32_t>(i % plan.tile_rows));
        const std::int64_t feature = work.first_column + i / plan.tile_rows;
        if (!row.valid || feature >= plan.feature_channels) continue;
        const std::int64_t at = (feature * plan.image_channels + work.first_channel + row.channel) * 9 + row.tap;
        for (std::int64_t split = 0; split < plan.splits; ++split)
          expected.at(static_cast<std::size_t>(at)) +=
              partial[static_cast<std::size_t>((split * blocks + block) * tile + i)];
      }
    }
    cuda::weight::AddGrid grid = cuda::weight::add_grid(plan);
    grid.columns = choice.columns;
    grid.rounds = choice.rounds;
    grid.log2_lanes = choice.log2_lanes;
    grid.thread_units = choice.thread_units;
    grid.units = (grid.columns * plan.tile_rows / 4) << grid.log2_lanes;
    grid.splits = ((plan.splits - 1) >> grid.log2_lanes) + 1;
    grid.blocks = blocks * plan.tile_columns / (grid.columns * grid.rounds);
    grid.tile_blocks = Divider(static_cast<std::uint32_t>(plan.tile_columns / (grid.columns * grid.rounds)));
    Operand<float> out(std::vector<double>(expected.size(), std::numeric_limits<double>::quiet_NaN()), 0);
    const auto kernel = cuda::weight::add_splits_kernel_of<float>(grid);
    emulation::run({.grid = {static_cast<unsigned>(grid.blocks)},
                    .block = {static_cast<unsigned>(cuda::weight::kAddThreads)},
                    .seed = static_cast<std::uint64_t>(choice.splits)},
                   [&] { kernel(plan, {}, grid, partial.data(), out.data()); });
    expect_equal(out.data(), expected);
    EXPECT_TRUE(out.surroundings_are_kept());
  }
}

}  // namespace
}  // namespace adjoint::testing

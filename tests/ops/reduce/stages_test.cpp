// The arithmetic behind the reductions: stages and the CUDA kernel's tiling visit every element once.
#include <adjoint/ops/reduce/cuda/tiling.h>
#include <adjoint/ops/reduce/stages.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace adjoint {
namespace {

std::vector<ReduceStage> all_stages(const Shape& shape, std::uint32_t axes, std::int64_t rows) {
  ReduceStages stages(shape, axes);
  std::vector<ReduceStage> all;
  ReduceStage stage;
  while (stages.next(stage, [rows](std::int64_t, std::int64_t) { return rows; })) all.push_back(stage);
  return all;
}

TEST(ReduceStages, MergeNeighboursAndReduceInnermostFirst) {
  const auto stages = all_stages({2, 3, 1, 4, 5, 6}, 0b011011, 1000);  // axes 0, 1, 3, 4 (and 2 has one element)
  ASSERT_EQ(stages.size(), 1U);
  EXPECT_EQ(stages[0].outer, 1);
  EXPECT_EQ(stages[0].extent, 120);
  EXPECT_EQ(stages[0].inner, 6);
  EXPECT_TRUE(stages[0].last);

  const auto two = all_stages({8, 3, 5, 7}, 0b1101, 1000);  // the form of a convolution's bias gradient
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].outer, 24);
  EXPECT_EQ(two[0].extent, 35);
  EXPECT_EQ(two[0].inner, 1);
  EXPECT_FALSE(two[0].last);
  EXPECT_EQ(two[1].outer, 1);
  EXPECT_EQ(two[1].extent, 8);
  EXPECT_EQ(two[1].inner, 3);
  EXPECT_TRUE(two[1].last);
}

TEST(ReduceStages, ChunksAreReducedAgain) {
  const auto stages = all_stages({4, 1000}, 0b10, 10);
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[0].chunks, 100);
  EXPECT_EQ(stages[1].extent, 100);
  EXPECT_EQ(stages[1].chunks, 10);
  EXPECT_EQ(stages[2].extent, 10);
  EXPECT_EQ(stages[2].chunks, 1);
  EXPECT_EQ(stages[2].results(), 4);
  EXPECT_TRUE(all_stages({4, 1}, 0b10, 10).empty());
}

TEST(ReduceTiling, EveryElementIsReadOnceByTheItemItBelongsTo) {
  for (const std::int64_t outer : {1, 3}) {
    for (const std::int64_t extent : {1, 2, 5, 63, 300, 8193, 20000}) {
      for (const std::int64_t inner : {1, 2, 3, 31, 32, 33, 100}) {
        if (outer * extent * inner > 300000) continue;
        ReduceStage stage{.outer = outer, .extent = extent, .inner = inner};
        stage.chunk_rows = cuda::reduce_chunk_rows(extent, inner);
        stage.chunks = (extent + stage.chunk_rows - 1) / stage.chunk_rows;
        const cuda::ReduceTiling tiling = cuda::reduce_tiling(stage);
        ASSERT_LE(tiling.lanes() * tiling.items_per_block, cuda::kReduceThreads);
        std::vector<int> reads(static_cast<std::size_t>(outer * extent * inner), 0);
        std::vector<int> writes(static_cast<std::size_t>(stage.results()), 0);
        for (std::int64_t block = 0; block < tiling.blocks(); ++block) {
          for (int thread = 0; thread < cuda::kReduceThreads; ++thread) {
            const cuda::ReducePlace place = cuda::reduce_place(tiling, stage, block * tiling.items_per_block, thread);
            if (!place.active) continue;
            const std::int64_t begin = place.chunk * stage.chunk_rows;
            const std::int64_t end = std::min(extent, begin + stage.chunk_rows);
            for (std::int64_t row = begin + place.row; row < end; row += tiling.abreast) {
              ++reads[static_cast<std::size_t>((place.outer * extent + row) * inner + place.column)];
            }
            if (place.row == 0) {
              ++writes[static_cast<std::size_t>((place.outer * stage.chunks + place.chunk) * inner + place.column)];
            }
          }
        }
        EXPECT_TRUE(std::all_of(reads.begin(), reads.end(), [](int n) { return n == 1; }))
            << outer << " " << extent << " " << inner;
        EXPECT_TRUE(std::all_of(writes.begin(), writes.end(), [](int n) { return n == 1; }))
            << outer << " " << extent << " " << inner;
      }
    }
  }
}

}  // namespace
}  // namespace adjoint

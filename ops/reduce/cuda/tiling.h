// The division of a reduction stage among a block's threads: plain arithmetic, from shapes alone.
//
// An item is one chunk of rows and up to 32 columns of (outer, extent, inner). Its threads are arranged as (abreast,
// columns), so each warp reads neighbouring elements for every shape. A block holds as many items as fit.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/reduce/stages.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace adjoint::cuda {

inline constexpr int kReduceThreads = 256;
inline constexpr std::int64_t kReduceColumns = 32;
// Rows per thread before a chunk ends: they bound the error of the sums, and a block's time. Packs of neighbours have
// one sum each, and twice as many rows if there are chunks enough: a block ends with a tree, which is expensive for
// moments.
inline constexpr std::int64_t kRowsPerThread = 32, kPackRowsPerThread = 16, kManyElements = 1 << 25;
// A row's threads have twice as many elements each as a column's: 1,024 floats fit a warp, which needs no barrier.
// Columns that are read in packs, of which there are many, have the most.
inline constexpr std::int64_t kLeastRowsPerThread = 4, kLeastOfOneRow = 8, kLeastOfPacks = 16;

struct ReduceTiling {
  int columns = 1;  // threads of a row
  int abreast = 1;  // rows in parallel; a power of two
  int items_per_block = 1;
  std::int64_t column_blocks = 1;
  std::int64_t items = 1;
  Divider by_lanes, by_columns, by_column_blocks, by_chunks;  // the last two only if `narrow`
  bool narrow = true;  // items are counted in 32 bits: four 64-bit divisions take longer than a short row's elements

  ADJOINT_HD constexpr int lanes() const { return columns * abreast; }
  constexpr std::int64_t blocks() const { return (items + items_per_block - 1) / items_per_block; }
};

/// One thread's part of one item; `column` and `row` are those of its first element.
struct ReducePlace {
  std::int64_t outer;
  std::int64_t chunk;
  std::int64_t column;
  int row;      // among the rows abreast
  bool active;  // surplus threads, past the last item or past the last column, only join barriers
};

ADJOINT_HD constexpr ReducePlace reduce_place(const ReduceTiling& tiling, const ReduceStage& stage,
                                              std::int64_t first_item, int thread) {
  std::int32_t lane = thread;
  const std::int64_t item = first_item + tiling.by_lanes.split(lane);
  ReducePlace place{};
  std::int32_t column = lane;
  place.row = tiling.by_columns.split(column);
  if (tiling.narrow) {
    auto column_block = static_cast<std::int32_t>(item);
    auto chunk = tiling.by_column_blocks.split(column_block);
    place.outer = tiling.by_chunks.split(chunk);
    place.chunk = chunk;
    place.column = std::int64_t{column_block} * tiling.columns + column;
  } else {
    place.column = item % tiling.column_blocks * tiling.columns + column;
    place.chunk = item / tiling.column_blocks % stage.chunks;
    place.outer = item / tiling.column_blocks / stage.chunks;
  }
  place.active = thread < tiling.lanes() * tiling.items_per_block && item < tiling.items && place.column < stage.inner;
  return place;
}

constexpr int reduce_columns(std::int64_t inner) { return static_cast<int>(std::min(inner, kReduceColumns)); }

constexpr int reduce_abreast(std::int64_t extent, std::int64_t inner, std::int64_t least) {
  const auto most = std::bit_floor(static_cast<std::uint64_t>(kReduceThreads / reduce_columns(inner)));
  const auto useful = std::bit_ceil(static_cast<std::uint64_t>((extent + least - 1) / least));
  return static_cast<int>(std::min(most, useful));
}
constexpr int reduce_abreast(std::int64_t extent, std::int64_t inner) {
  return reduce_abreast(extent, inner, inner == 1 ? kLeastOfOneRow : kLeastRowsPerThread);
}

constexpr std::int64_t reduce_chunk_rows(std::int64_t extent, std::int64_t inner) {
  return reduce_abreast(extent, inner) * kRowsPerThread;
}
/// For `pack` neighbours that one access reads, and this many elements in total.
constexpr std::int64_t reduce_chunk_rows(std::int64_t extent, std::int64_t inner, std::int64_t pack,
                                         std::int64_t elements) {
  if (inner != 1 || pack == 1 || extent % pack != 0) return reduce_chunk_rows(extent, inner);
  const std::int64_t rows = elements < kManyElements ? kPackRowsPerThread : 2 * kPackRowsPerThread;
  return reduce_abreast(extent / pack, 1) * rows * pack;
}

constexpr ReduceTiling reduce_tiling(const ReduceStage& stage, int abreast) {
  ReduceTiling tiling;
  tiling.columns = reduce_columns(stage.inner);
  tiling.abreast = abreast;
  tiling.items_per_block = kReduceThreads / tiling.lanes();
  tiling.column_blocks = (stage.inner + tiling.columns - 1) / tiling.columns;
  tiling.items = stage.outer * stage.chunks * tiling.column_blocks;
  tiling.by_lanes = Divider(static_cast<std::uint32_t>(tiling.lanes()));
  tiling.by_columns = Divider(static_cast<std::uint32_t>(tiling.columns));
  tiling.narrow = tiling.items <= std::numeric_limits<std::int32_t>::max() - kReduceThreads;
  if (tiling.narrow) {
    tiling.by_column_blocks = Divider(static_cast<std::uint32_t>(tiling.column_blocks));
    tiling.by_chunks = Divider(static_cast<std::uint32_t>(stage.chunks));
  }
  return tiling;
}

constexpr ReduceTiling reduce_tiling(const ReduceStage& stage) {
  return reduce_tiling(stage, reduce_abreast(stage.extent, stage.inner));
}

}  // namespace adjoint::cuda

// Adds the splits' sums of conv_weight's tensor-core kernels, in an order that the plan alone determines, and puts them
// in the filter's order.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/weight/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda::weight {

inline constexpr int kAddThreads = 256;

/// The place of a column's i-th sum in shared memory: sums that are read together belong to neighbouring channels of a
/// few taps, and the taps of a channel are a power of two apart.
ADJOINT_HD constexpr int sum_place(int i) { return i + i / 32 * 8; }

/// A block of threads adds all rows of a tile's columns, some at a time. Its units are vectors of four sums: a thread
/// reads some splits of one unit, or of several units if there are few splits, before it uses any. If there are too few
/// vectors for all threads, neighbouring threads (`lanes`) add parts of the splits. A block does several rounds, to
/// share what it computes beforehand, if it has little to read.
struct AddGrid {
  std::int32_t columns, rounds;  // columns of a round
  std::int32_t log2_lanes;
  std::int32_t units;         // of a round, all lanes'
  std::int32_t thread_units;  // that a thread reads together
  std::int32_t splits;        // of a lane, at most
  std::int64_t blocks;
  std::size_t smem_bytes;
  Divider column_vectors;
  Divider tile_blocks;  // of threads
};

/// The unit that a lane adds.
struct AddUnit {
  std::int32_t vector;  // of the round
  std::int32_t first_split, end_split;
};

ADJOINT_HD inline AddUnit add_unit(const WeightPlan& p, const AddGrid& grid, std::int32_t unit) {
  const std::int32_t vector = unit >> grid.log2_lanes, lane = unit - (vector << grid.log2_lanes);
  return {vector, (lane * p.splits) >> grid.log2_lanes, ((lane + 1) * p.splits) >> grid.log2_lanes};
}

/// A row of the tile, and its place in the filter, counted from its feature channel's first.
struct AddRow {
  std::int64_t to;
  std::int32_t row;
};

inline constexpr int kAddAtOnce = 8;  // vectors that a thread reads before it uses one

inline AddGrid add_grid(const WeightPlan& p) {
  constexpr std::int32_t kMostLog2Lanes = 3, kMostThreadUnits = 4;
  constexpr auto kAtOnce = static_cast<std::int64_t>(kMultiprocessors);
  constexpr std::int64_t kBlocksAtOnce = 3 * kAtOnce, kThreadsWanted = 2 * kAtOnce * kAddThreads;
  constexpr std::int64_t kBlockBytes = 64 << 10;  // to read, at most, if a block does several rounds
  constexpr std::int64_t kMostBytes = 48 << 10;   // of a block that asks for no more than it gets anyway
  const std::int32_t column_vectors = p.tile_rows / 4;
  const std::int64_t columns = p.blocks_per_split() * p.tile_columns, vectors = columns * column_vectors;  // of all
  AddGrid grid{.columns = 1, .rounds = 1, .log2_lanes = 0, .thread_units = 1};
  while (grid.log2_lanes < kMostLog2Lanes && (4 << grid.log2_lanes) <= p.splits &&
         (vectors << grid.log2_lanes) < kThreadsWanted) {
    ++grid.log2_lanes;
  }
  grid.splits = ((p.splits - 1) >> grid.log2_lanes) + 1;
  while (grid.thread_units < kMostThreadUnits && 2 * grid.thread_units * grid.splits <= kAddAtOnce &&
         (vectors << grid.log2_lanes) >= 2 * grid.thread_units * kAddThreads * kBlocksAtOnce) {
    grid.thread_units *= 2;
  }
  const auto bytes = [&p](std::int32_t columns_staged) {
    return p.tile_rows * static_cast<std::int64_t>(sizeof(AddRow)) +
           columns_staged * sum_place(p.tile_rows) * static_cast<std::int64_t>(sizeof(float));
  };
  // Until all threads have as many units as they read together.
  const std::int32_t column_units = column_vectors << grid.log2_lanes, wanted = grid.thread_units * kAddThreads;
  while (grid.columns * column_units % wanted != 0 && 2 * grid.columns <= p.tile_columns &&
         columns / (2 * grid.columns) >= kAtOnce && bytes(2 * grid.columns) <= kMostBytes) {
    grid.columns *= 2;
  }
  grid.units = grid.columns * column_units;
  const std::int64_t column_bytes = std::int64_t{p.splits} * p.tile_rows * static_cast<std::int64_t>(sizeof(float));
  while (2 * grid.columns * grid.rounds <= p.tile_columns &&
         columns / (2 * grid.columns * grid.rounds) >= kBlocksAtOnce &&
         2 * grid.columns * grid.rounds * column_bytes <= kBlockBytes) {
    grid.rounds *= 2;
  }
  grid.blocks = columns / (grid.columns * grid.rounds);
  grid.smem_bytes = static_cast<std::size_t>(bytes(grid.columns));
  grid.column_vectors = Divider(static_cast<std::uint32_t>(column_vectors));
  grid.tile_blocks = Divider(static_cast<std::uint32_t>(p.tile_columns / (grid.columns * grid.rounds)));
  return grid;
}

/// One batch of reads of a block's threads: some splits of kUnits units for each thread. `first`: the first thread's
/// unit.
struct AddBatch {
  const float* from;  // the round's sums of the first split
  std::int32_t first, splits_done;
};

/// kUnits: AddGrid's thread_units.
template <int kUnits>
__device__ __forceinline__ void read_batch(const WeightPlan& p, const AddGrid& grid, const AddBatch& batch,
                                           std::int64_t split_step, float4 (&values)[kAddAtOnce]) {
  constexpr int kSplits = kAddAtOnce / kUnits;
#pragma unroll
  for (int k = 0; k < kUnits; ++k) {
    const int index = batch.first + k * kAddThreads + static_cast<int>(threadIdx.x);
    const AddUnit unit = add_unit(p, grid, index);
    const int first_split = unit.first_split + batch.splits_done;
    const int left = index < grid.units ? unit.end_split - first_split : 0;
    const float* next = batch.from + first_split * split_step + 4 * unit.vector;
#pragma unroll
    for (int i = 0; i < kSplits; ++i) {
      if (i < left) values[k * kSplits + i] = *reinterpret_cast<const float4*>(next);
      next += split_step;
    }
  }
}

/// Adds the values read to `totals`, a unit's, and stages these when all splits are done.
template <int kUnits>
__device__ __forceinline__ void add_batch(const WeightPlan& p, const AddGrid& grid, const AddBatch& batch,
                                          const float4 (&values)[kAddAtOnce], double (&totals)[4], float* sums) {
  constexpr int kSplits = kAddAtOnce / kUnits;
  const int column_step = sum_place(p.tile_rows), lanes = 1 << grid.log2_lanes;
#pragma unroll
  for (int k = 0; k < kUnits; ++k) {
    const int index = batch.first + k * kAddThreads + static_cast<int>(threadIdx.x);
    const AddUnit unit = add_unit(p, grid, index);
    const int left = index < grid.units ? unit.end_split - unit.first_split - batch.splits_done : 0;
    if (kUnits > 1 || batch.splits_done == 0) totals[0] = totals[1] = totals[2] = totals[3] = 0;
#pragma unroll
    for (int i = 0; i < kSplits; ++i) {
      if (i >= left || p.splits == 1) continue;  // conversions are slow
      const float4& value = values[k * kSplits + i];
      totals[0] += static_cast<double>(value.x);
      totals[1] += static_cast<double>(value.y);
      totals[2] += static_cast<double>(value.z);
      totals[3] += static_cast<double>(value.w);
    }
    if (kUnits == 1 && batch.splits_done + kSplits < grid.splits) continue;
    for (int distance = 1; distance < lanes; distance *= 2) {
#pragma unroll
      for (double& total : totals) total += __shfl_xor_sync(0xffffffff, total, distance);
    }
    if (index >= grid.units || unit.first_split != 0) continue;
    int vector = unit.vector;
    const int column = grid.column_vectors.split(vector);
    auto* const place = reinterpret_cast<float4*>(sums + column * column_step + sum_place(4 * vector));
    *place = p.splits == 1 ? values[k * kSplits]
                           : make_float4(static_cast<float>(totals[0]), static_cast<float>(totals[1]),
                                         static_cast<float>(totals[2]), static_cast<float>(totals[3]));
  }
}

/// Advances to the batch after this one; a round's first batch follows another round's last.
template <int kUnits>
__device__ __forceinline__ AddBatch next_batch(const WeightPlan& p, const AddGrid& grid, AddBatch batch) {
  batch.splits_done += kAddAtOnce / kUnits;
  if (batch.splits_done < grid.splits) return batch;
  batch.splits_done = 0;
  batch.first += kUnits * kAddThreads;
  if (batch.first < grid.units) return batch;
  batch.first = 0;
  batch.from += grid.columns * p.tile_rows;
  return batch;
}

/// Always reads a batch ahead: the next reads are in flight while sums are put in the filter.
template <class T, int kUnits>
__global__ void __launch_bounds__(kAddThreads, 3)
    add_splits_kernel(const __grid_constant__ WeightPlan p, const __grid_constant__ WeightOrder order,
                      const __grid_constant__ AddGrid grid, const float* partial, T* filter) {
  auto* const rows = reinterpret_cast<AddRow*>(ptx::dynamic_smem());
  auto* const sums = reinterpret_cast<float*>(rows + p.tile_rows);  // (columns, rows)
  const int thread = static_cast<int>(threadIdx.x);
  int first_column = static_cast<int>(blockIdx.x);
  const int index = grid.tile_blocks.split(first_column);
  first_column *= grid.columns * grid.rounds;
  const WeightWork work = weight_work(p, index);
  int features = p.feature_channels - work.first_column - first_column;  // those that the columns left may have
  const std::int64_t tile = std::int64_t{p.tile_rows} * p.tile_columns, split_step = p.blocks_per_split() * tile;
  AddBatch batch{partial + index * tile + first_column * p.tile_rows, 0, 0};
  float4 values[kAddAtOnce] = {};
  ptx::wait_for_earlier_kernels();
  if (features <= 0) return;
  read_batch<kUnits>(p, grid, batch, split_step, values);
  // The first vectors are in flight.
  const WeightTapBlock& taps = p.tap_block[work.tap_block];
  const int count = min(p.block_channels, p.image_channels - work.first_channel) * taps.taps;
  for (int i = thread; i < count; i += kAddThreads) {
    const int channel = i / taps.taps, tap = i - channel * taps.taps;
    rows[i] = {order.place(p, work.first_channel + channel, taps.first_tap + tap),
               sum_place(weight_row_index(p, channel, tap))};
  }
  const std::int64_t feature_step = std::int64_t{p.image_channels / order.residues()} * order.taps(p);
  T* to = filter + (std::int64_t{work.group} * p.feature_channels + work.first_column + first_column) * feature_step;
  // Threads for which no row of the first column is left begin with other columns.
  const int columns_at_once = max(kAddThreads / count, 1);
  const int first_of_round = thread / count, first_row = thread - first_of_round * count;
  const int column_step = sum_place(p.tile_rows);
  double totals[4] = {};
  for (int rounds = grid.rounds;;) {
    add_batch<kUnits>(p, grid, batch, values, totals, sums);
    batch = next_batch<kUnits>(p, grid, batch);
    const bool ends_round = batch.first == 0 && batch.splits_done == 0;
    const bool ends = ends_round && (--rounds == 0 || features <= grid.columns);
    if (!ends) read_batch<kUnits>(p, grid, batch, split_step, values);
    if (!ends_round) continue;
    __syncthreads();
    const int columns = min(grid.columns, features);
    for (int i = first_row; i < count && first_of_round < columns_at_once; i += kAddThreads) {
      const AddRow row = rows[i];
      if (row.to < 0) continue;
      T* place = to + first_of_round * feature_step + row.to;
      const float* sum = sums + first_of_round * column_step + row.row;
#pragma unroll 4
      for (int column = first_of_round; column < columns; column += columns_at_once) {
        *place = from_float<T>(*sum);
        place += columns_at_once * feature_step;
        sum += columns_at_once * column_step;
      }
    }
    if (ends) return;
    __syncthreads();
    features -= grid.columns;
    to += grid.columns * feature_step;
  }
}

/// The kernel that adds them on such a grid.
template <class T>
auto add_splits_kernel_of(const AddGrid& grid) {
  return grid.thread_units == 1   ? add_splits_kernel<T, 1>
         : grid.thread_units == 2 ? add_splits_kernel<T, 2>
                                  : add_splits_kernel<T, 4>;
}

}  // namespace adjoint::cuda::weight

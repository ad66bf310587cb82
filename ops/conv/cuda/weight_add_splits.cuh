// Adds the splits' sums of conv_weight's tensor-core kernels, in an order that the plan alone decides, and puts them in
// the filter's order.
#pragma once

#include <adjoint/core/divider.h>
#include <adjoint/ops/conv/weight_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::weight {

inline constexpr int kAddThreads = 256;

/// Where the i-th sum of a column lies in shared memory: sums that are read together are neighbouring channels' of a
/// few taps, and the taps of a channel are a power of two apart.
ADJOINT_HD constexpr int sum_place(int i) { return i + i / 32 * 8; }

/// A block of threads adds all rows of a tile's columns, some at a time: `lanes` sums of a part of the splits each, and
/// then these. Many splits are many lanes, for a filter that needs them is small; a large one has blocks with many
/// columns, for what they work out beforehand.
struct AddGrid {
  std::int32_t columns, rounds, lanes;  // columns of a round
  std::int64_t blocks;
  std::size_t smem_bytes;
  Divider column_vectors;  // of four sums
  Divider tile_blocks;     // of threads
};

/// A row of the tile, and its place in the filter, counted from its feature channel's first.
struct AddRow {
  std::int64_t to;
  std::int32_t row;
};

inline AddGrid add_grid(const WeightPlan& p) {
  constexpr std::int32_t kMostColumns = 32, kMostLanes = 8;
  constexpr std::size_t kMostBytes = 48 << 10;  // of a block that asks for no more than it gets anyway
  AddGrid grid{.columns = 1, .rounds = 1, .lanes = 1};
  grid.column_vectors = Divider(static_cast<std::uint32_t>(p.tile_rows / 4));
  const auto bytes = [&p](int lanes, int columns) {
    const auto sums = static_cast<std::size_t>(lanes) * static_cast<std::size_t>(columns * sum_place(p.tile_rows));
    return static_cast<std::size_t>(p.tile_rows) * sizeof(AddRow) +
           sums * (lanes == 1 ? sizeof(float) : sizeof(double));
  };
  while (grid.lanes < kMostLanes && 4 * grid.lanes <= p.splits && bytes(2 * grid.lanes, 1) <= kMostBytes) {
    grid.lanes *= 2;
  }
  const std::int64_t columns = p.blocks_per_split() * p.tile_columns;  // of all tiles
  const std::int64_t blocks_wanted = grid.lanes == 1 ? 512 : 1024;
  const std::int32_t most_columns = std::min(kMostColumns, p.tile_columns);
  while (grid.lanes == 1 && grid.columns < most_columns && columns / (2 * grid.columns) >= blocks_wanted &&
         bytes(1, 2 * grid.columns) <= kMostBytes) {
    grid.columns *= 2;
  }
  while (2 * grid.columns * grid.rounds <= p.tile_columns &&
         columns / (2 * grid.columns * grid.rounds) >= blocks_wanted) {
    grid.rounds *= 2;
  }
  grid.blocks = columns / (grid.columns * grid.rounds);
  grid.tile_blocks = Divider(static_cast<std::uint32_t>(p.tile_columns / (grid.columns * grid.rounds)));
  grid.smem_bytes = bytes(grid.lanes, grid.columns);
  return grid;
}

inline constexpr int kAddAtOnce = 4;

/// Where a round's vector is staged.
__device__ __forceinline__ int vector_place(const AddGrid& grid, int vector, int column_step) {
  const int column = grid.column_vectors.split(vector);
  return column * column_step + sum_place(4 * vector);
}

/// Adds all splits of the sums from `from` on, which lie there `split_step` apart, and stages them. A thread reads some
/// vectors before it uses one: there is little else to wait for.
__device__ __forceinline__ void stage_many(const WeightPlan& p, const AddGrid& grid, const float* from,
                                           std::int64_t split_step, int vectors, int column_step, float* sums) {
  constexpr int kAtOnce = kAddAtOnce;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < vectors; first += kAtOnce * kAddThreads) {
    float4 values[kAtOnce] = {};
    const auto read = [&](int split) {
      const auto* const of_split = reinterpret_cast<const float4*>(from + split * split_step) + first;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (first + k * kAddThreads < vectors) values[k] = of_split[k * kAddThreads];
      }
    };
    read(0);
    if (p.splits > 1) {
      double totals[kAtOnce][4] = {};
      const auto add = [&] {
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          totals[k][0] += static_cast<double>(values[k].x);
          totals[k][1] += static_cast<double>(values[k].y);
          totals[k][2] += static_cast<double>(values[k].z);
          totals[k][3] += static_cast<double>(values[k].w);
        }
      };
      add();
#pragma unroll 1
      for (int split = 1; split < p.splits; ++split) {
        read(split);
        add();
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        values[k] = make_float4(static_cast<float>(totals[k][0]), static_cast<float>(totals[k][1]),
                                static_cast<float>(totals[k][2]), static_cast<float>(totals[k][3]));
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int vector = first + k * kAddThreads;
      if (vector < vectors) {
        *reinterpret_cast<float4*>(sums + vector_place(grid, vector, column_step)) = values[k];
      }
    }
  }
}

/// The same in parts, one a lane, whose sums are staged apart. A thread reads some splits at once.
template <class Sum>
__device__ __forceinline__ void stage_lanes(const WeightPlan& p, const AddGrid& grid, const float* from,
                                            std::int64_t split_step, int vectors, int column_step, int lane_step,
                                            Sum* sums) {
  const int lanes = grid.lanes;
#pragma unroll 1
  for (int unit = static_cast<int>(threadIdx.x); unit < lanes * vectors; unit += kAddThreads) {
    const int lane = unit / vectors, vector = unit - lane * vectors;
    const int begin = lane * p.splits / lanes, end = (lane + 1) * p.splits / lanes;
    double sum[4] = {};
#pragma unroll 4
    for (int split = begin; split < end; ++split) {
      const float4 value = *reinterpret_cast<const float4*>(from + split * split_step + 4 * vector);
      sum[0] += static_cast<double>(value.x);
      sum[1] += static_cast<double>(value.y);
      sum[2] += static_cast<double>(value.z);
      sum[3] += static_cast<double>(value.w);
    }
    Sum* const place = sums + lane * lane_step + vector_place(grid, vector, column_step);
#pragma unroll
    for (int i = 0; i < 4; ++i) place[i] = static_cast<Sum>(sum[i]);
  }
}

/// Sum is what is staged: double, or float where one lane adds all splits.
template <class T, class Sum>
__global__ void __launch_bounds__(kAddThreads, 3)
    add_splits_kernel(const __grid_constant__ WeightPlan p, const __grid_constant__ WeightOrder order,
                      const AddGrid grid, const float* partial, T* filter) {
  auto* const rows = reinterpret_cast<AddRow*>(ptx::dynamic_smem());
  auto* const sums = reinterpret_cast<Sum*>(rows + p.tile_rows);  // (lanes, columns, rows)
  const int thread = static_cast<int>(threadIdx.x), in_block = grid.columns * grid.rounds;
  int first_column = static_cast<int>(blockIdx.x);
  const int index = grid.tile_blocks.split(first_column);
  first_column *= in_block;
  const WeightWork work = weight_work(p, index);
  const WeightTapBlock& taps = p.tap_block[work.tap_block];
  const int count = min(p.block_channels, p.image_channels - work.first_channel) * taps.taps;
  for (int i = thread; i < count; i += kAddThreads) {
    const int channel = i / taps.taps, tap = i - channel * taps.taps;
    rows[i] = {order.place(p, work.first_channel + channel, taps.first_tap + tap),
               sum_place(weight_row_index(p, channel, tap))};
  }
  const std::int64_t feature_step = std::int64_t{p.image_channels / order.residues()} * order.taps(p);
  const int features = p.feature_channels - work.first_column - first_column;  // that the block's columns may have
  T* to = filter + (std::int64_t{work.group} * p.feature_channels + work.first_column + first_column) * feature_step;
  // Threads that no row of the first column is left for begin with other columns.
  const int columns_at_once = max(kAddThreads / count, 1);
  const int first_of_round = thread / count, first_row = thread - first_of_round * count;

  const std::int64_t tile = std::int64_t{p.tile_rows} * p.tile_columns, split_step = p.blocks_per_split() * tile;
  const float* from = partial + index * tile + first_column * p.tile_rows;
  const int staged = grid.columns * p.tile_rows, column_step = sum_place(p.tile_rows);
  const int lane_step = grid.columns * column_step;
  ptx::wait_for_earlier_kernels();
  for (int round = 0; round < grid.rounds && round * grid.columns < features; ++round) {
    const int vectors = staged / 4;
    bool many = false;
    if constexpr (std::is_same_v<Sum, float>) {
      many = p.splits == 1 || vectors >= kAddAtOnce * kAddThreads;
      if (many) stage_many(p, grid, from, split_step, vectors, column_step, sums);
    }
    if (!many) stage_lanes(p, grid, from, split_step, vectors, column_step, lane_step, sums);
    __syncthreads();
    const int columns = min(grid.columns, features - round * grid.columns);
    for (int i = first_row; i < count && first_of_round < columns_at_once; i += kAddThreads) {
      const AddRow row = rows[i];
      if (row.to < 0) continue;
      T* place = to + first_of_round * feature_step + row.to;
      const Sum* staged_sum = sums + first_of_round * column_step + row.row;
#pragma unroll 4
      for (int column = first_of_round; column < columns; column += columns_at_once) {
        Sum sum = *staged_sum;
        if constexpr (!std::is_same_v<Sum, float>) {
          for (int lane = 1; lane < grid.lanes; ++lane) sum += staged_sum[lane * lane_step];
        }
        *place = from_float<T>(static_cast<float>(sum));
        place += columns_at_once * feature_step;
        staged_sum += columns_at_once * column_step;
      }
    }
    __syncthreads();
    from += staged;
    to += grid.columns * feature_step;
  }
}

/// The kernel that adds them on such a grid.
template <class T>
auto add_splits_kernel_of(const AddGrid& grid) {
  return grid.lanes == 1 ? add_splits_kernel<T, float> : add_splits_kernel<T, double>;
}

}  // namespace adjoint::cuda::weight

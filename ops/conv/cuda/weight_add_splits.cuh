// Adds the splits' sums of conv_weight's tensor-core kernels, in an order that the plan alone decides, and puts them in
// the filter's order.
#pragma once

#include <adjoint/ops/conv/weight_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda::weight {

inline constexpr int kAddThreads = 256;

/// Where the i-th sum lies in shared memory: taps' sums, which are read together, are a block's channels apart, most
/// often a multiple of all banks.
ADJOINT_HD constexpr int sum_place(int i) { return i + i / 16; }

/// A block of threads adds all rows of some columns of a tile: `lanes` sums of a part of the splits each, and then
/// these. Many splits are many lanes, for a filter that needs them is small.
struct AddGrid {
  std::int32_t columns, lanes;
  std::int64_t blocks;
  std::size_t smem_bytes;
};

inline AddGrid add_grid(const WeightPlan& p) {
  constexpr std::int64_t kBlocksWanted = 1024, kMostColumns = 16, kMostLanes = 8;
  constexpr std::size_t kMostBytes = 48 << 10;  // of a block that asks for no more than it gets anyway
  AddGrid grid{.columns = 1, .lanes = 1};
  const auto bytes = [&p](int lanes, int columns) {
    return sizeof(double) * static_cast<std::size_t>(sum_place(lanes * columns * p.tile_rows));
  };
  while (grid.lanes < kMostLanes && 4 * grid.lanes <= p.splits && bytes(2 * grid.lanes, 1) <= kMostBytes) {
    grid.lanes *= 2;
  }
  const std::int64_t columns = p.blocks_per_split() * p.tile_columns;  // of all tiles
  while (grid.lanes == 1 && grid.columns < kMostColumns && columns / (2 * grid.columns) >= kBlocksWanted &&
         bytes(1, 2 * grid.columns) <= kMostBytes) {
    grid.columns *= 2;
  }
  grid.blocks = columns / grid.columns;
  grid.smem_bytes = bytes(grid.lanes, grid.columns);
  return grid;
}

template <class T>
__global__ void __launch_bounds__(kAddThreads)
    add_splits_kernel(const __grid_constant__ WeightPlan p, const __grid_constant__ WeightOrder order,
                      const AddGrid grid, const float* partial, T* filter) {
  auto* const sums = reinterpret_cast<double*>(ptx::dynamic_smem());  // (lanes, columns, rows)
  const int per_tile = p.tile_columns / grid.columns, index = static_cast<int>(blockIdx.x) / per_tile;
  const int first_column = (static_cast<int>(blockIdx.x) - index * per_tile) * grid.columns;
  const WeightWork work = weight_work(p, index);
  const std::int64_t tile = std::int64_t{p.tile_rows} * p.tile_columns, split_step = p.blocks_per_split() * tile;
  const float* const tiles = partial + index * tile + first_column * p.tile_rows;
  const int count = grid.columns * p.tile_rows;
  for (int unit = static_cast<int>(threadIdx.x); unit < grid.lanes * count / 4; unit += kAddThreads) {
    const int lane = unit / (count / 4), element = 4 * (unit - lane * (count / 4));
    const int begin = lane * p.splits / grid.lanes, end = (lane + 1) * p.splits / grid.lanes;
    double sum[4] = {};
#pragma unroll 4
    for (int split = begin; split < end; ++split) {
      const float4 value = *reinterpret_cast<const float4*>(tiles + split * split_step + element);
      sum[0] += static_cast<double>(value.x);
      sum[1] += static_cast<double>(value.y);
      sum[2] += static_cast<double>(value.z);
      sum[3] += static_cast<double>(value.w);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[sum_place(lane * count + element) + i] = sum[i];
  }
  __syncthreads();
  const WeightTapBlock& taps = p.tap_block[work.tap_block];
  const int features = min(grid.columns, p.feature_channels - work.first_column - first_column);
  const std::int64_t feature_step = std::int64_t{p.image_channels / order.residues()} * order.taps(p);
  T* const to =
      filter + (std::int64_t{work.group} * p.feature_channels + work.first_column + first_column) * feature_step;
  const int channels = min(p.block_channels, p.image_channels - work.first_channel);
  for (int i = static_cast<int>(threadIdx.x); i < channels * taps.taps; i += kAddThreads) {
    const int channel = i / taps.taps, tap = i - channel * taps.taps;
    const int row = weight_row_index(p, channel, tap);
    const std::int64_t place = order.place(p, work.first_channel + channel, taps.first_tap + tap);
    if (place < 0) continue;
    for (int column = 0; column < features; ++column) {
      double sum = 0;
      for (int lane = 0; lane < grid.lanes; ++lane) sum += sums[sum_place(lane * count + column * p.tile_rows + row)];
      to[column * feature_step + place] = from_float<T>(static_cast<float>(sum));
    }
  }
}

}  // namespace adjoint::cuda::weight

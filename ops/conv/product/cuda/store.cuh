// Stores a tile of the kernel for products of matrices (kernel.cuh): halves as boxes of the result that the copy engine
// writes; floats, and results that are not aligned, are activated or belong to a slice, in float32 through shared
// memory and along rows.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/product/plan.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>
#include <cstring>

namespace adjoint::cuda::product {

template <class T>
struct Operands {
  TensorMap rows, columns, result;  // the last only if `stores_boxes`
  const T* bias;                    // may be null
  T *out, *linear;                  // null if not wanted
  float* partial;                   // of slices
  Activate<float> activate;
  bool stores_boxes;
  bool stores_vectors;  // rows of results begin at multiples of four
};

/// A thread's sums of a tile's two products: in each, two neighbouring columns of every eight, in rows lane / 4 and
/// lane / 4 + 8 of the warp's 16.
using Sums = float[2][kProductColumns / 2];

/// The values added to a tile's rows, or columns.
template <class T>
__device__ __forceinline__ void fill_biases(const ProductPlan& p, const ProductTile& tile, const Operands<T>& operands,
                                            float* biases, int thread) {
  const std::int64_t channels = p.result.extents[p.rows_are_samples ? 0 : 1];
  const std::int64_t first = p.rows_are_samples ? tile.column_block * kProductBlock : tile.row;
#pragma unroll
  for (int i = thread; i < kProductBiases; i += kProductTeam) {
    const bool has = operands.bias != nullptr && first + i < channels;
    biases[i] = has ? to_float(operands.bias[tile.group * channels + first + i]) : 0.0F;
  }
}

/// Stores neighbours of a line, of which `left` remain; all of them if lines are whole vectors.
template <class To, int kCount>
__device__ __forceinline__ void write_neighbours(To* to, const float (&values)[kCount], std::int64_t left,
                                                 bool vectors) {
  if (vectors) {
    Pack<To, kCount> results;
#pragma unroll
    for (int i = 0; i < kCount; ++i) results.values[i] = from_float<To>(values[i]);
    *reinterpret_cast<Pack<To, kCount>*>(to) = results;
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < left) to[i] = from_float<To>(values[i]);
  }
}

template <class T>
struct Store {
  const ProductPlan& p;
  const Operands<T>& operands;
  const ProductTile& tile;
  const float* biases;
  unsigned char* out;   // the team's buffer
  int thread, barrier;  // of the team

  /// Blocks of rows, and of columns, of the tile before those of a product.
  __device__ __forceinline__ int row_blocks(int product) const { return product * p.second_row_block(); }
  __device__ __forceinline__ int column_blocks(int product) const { return product * p.second_column_block(); }

  /// Sums of eight columns of a product, with their biases.
  __device__ __forceinline__ void add_biases(const Sums& sums, int product, int eight, float (&values)[4]) const {
    const int lane = thread % 32, row = kProductBlock * row_blocks(product) + 16 * (thread / 32) + lane / 4;
    const int column = kProductBlock * column_blocks(product) + 8 * eight + 2 * (lane % 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = sums[product][4 * eight + i] + biases[p.rows_are_samples ? column + i % 2 : row + 8 * (i / 2)];
    }
  }

  /// Writes halves as blocks of 64 rows x 64 columns, swizzled, each with one instruction.
  __device__ __forceinline__ void write_boxes(const Sums& sums) const {
    // The thread that asks the copy engine to write waits for it; the others wait for that thread.
    ptx::bulk_wait_read();
    ptx::barrier<kProductTeam>(barrier);
    const int lane = thread % 32;
    // The place of a lane's row of an 8 x 8 matrix: the second matrix is eight rows on, the third eight columns.
    const int matrix_row = 16 * (thread / 32) + lane % 16, eight = lane / 16;
    const std::uint32_t to = ptx::shared_address(out) + matrix_row * 128;
#pragma unroll
    for (int product = 0; product < 2; ++product) {
#pragma unroll
      for (int n = 0; n < kProductColumns / 8; n += 2) {
        float values[2][4];
        add_biases(sums, product, n, values[0]);
        add_biases(sums, product, n + 1, values[1]);
        const std::uint32_t units[4] = {rounded(values[0][0], values[0][1]), rounded(values[0][2], values[0][3]),
                                        rounded(values[1][0], values[1][1]), rounded(values[1][2], values[1][3])};
        const int block = 2 * product + n / 8;
        ptx::store_matrices(to + block * kProductBlockBytes + (((n % 8 + eight) ^ (matrix_row % 8)) * 16), units);
      }
    }
    ptx::fence_async_proxy();
    ptx::barrier<kProductTeam>(barrier);
    if (thread != 0) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = tile.row + row_blocks(i / 2) * kProductBlock;
      const int block = tile.column_block + column_blocks(i / 2) + i % 2;
      const ProductPlace place = product_place(p.column_blocks_divider, block, kProductBlock);
      const int at[kTensorMapAxes] = {place.first, row, tile.group, place.sample, 0};
      if (row < p.result.extents[1] && block < p.all_column_blocks) {
        ptx::tensor_store(&operands.result, at, ptx::shared_address(out) + i * kProductBlockBytes);
      }
    }
    ptx::bulk_commit();
  }

  __device__ __forceinline__ static std::uint32_t rounded(float first, float second) {
    const Pack<T, 2> pair{{from_float<T>(first), from_float<T>(second)}};
    std::uint32_t unit;
    memcpy(&unit, &pair, sizeof(unit));
    return unit;
  }

  /// The place of a row's sum staged in float32: columns move in eights, so that a warp's rows fall into different
  /// banks.
  __device__ __forceinline__ float* staged(int row, int column) const {
    return reinterpret_cast<float*>(out) + row * kProductColumns + (column ^ (row % 4 * 8));
  }

  __device__ __forceinline__ void stage(const Sums& sums, int product) const {
    const int lane = thread % 32, row = 16 * (thread / 32) + lane / 4;
#pragma unroll
    for (int n = 0; n < kProductColumns / 8; ++n) {
      float values[4];
      add_biases(sums, product, n, values);
      const int column = 8 * n + 2 * (lane % 4);
      *reinterpret_cast<float2*>(staged(row, column)) = make_float2(values[0], values[1]);
      *reinterpret_cast<float2*>(staged(row + 8, column)) = make_float2(values[2], values[3]);
    }
  }

  /// Writes along rows: a warp one row at a time, each lane four columns.
  __device__ __forceinline__ void write_rows(const Sums& sums) const {
    const int lane = thread % 32, column = 4 * lane;
#pragma unroll 1
    for (int product = 0; product < 2; ++product) {
      const int block = tile.column_block + column_blocks(product) + column / kProductBlock;
      const ProductPlace place = product_place(p.column_blocks_divider, block, kProductBlock);
      const std::int64_t first = place.first + column % kProductBlock;
      const std::int64_t left = block < p.all_column_blocks ? p.result.width - first : 0;
      ptx::barrier<kProductTeam>(barrier);
      if (product == 0) {
        stage(sums, 0);
      } else {
        stage(sums, 1);
      }
      ptx::barrier<kProductTeam>(barrier);
#pragma unroll 1
      for (int row = thread / 32; row < kProductBlock; row += kProductTeam / 32) {
        const std::int64_t line = tile.row + row_blocks(product) * kProductBlock + row;
        if (line >= p.result.extents[1] || left <= 0) continue;
        Pack<float, 4> values = *reinterpret_cast<const Pack<float, 4>*>(staged(row, column));
        if (operands.partial != nullptr) {
          float* const to = operands.partial + place.sample * p.partial_sample + tile.group * p.partial_group +
                            tile.slice * p.partial_slice + line * p.partial_row + first;
          write_neighbours(to, values.values, left, operands.stores_vectors);
          continue;
        }
        const std::int64_t at =
            place.sample * p.result.strides[3] + tile.group * p.result.strides[2] + line * p.result.strides[1] + first;
        if (operands.linear != nullptr)
          write_neighbours(operands.linear + at, values.values, left, operands.stores_vectors);
        operands.activate(values.values);
        write_neighbours(operands.out + at, values.values, left, operands.stores_vectors);
      }
    }
  }
};

}  // namespace adjoint::cuda::product

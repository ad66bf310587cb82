// Copies a factor for the kernel for products of matrices (product/cuda/kernel.cuh) if the copy engine cannot read it
// unchanged: to lines that begin at multiples of 16 bytes, or transposed.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/base/rows_aligned.h>

#include <cstdint>

namespace adjoint::cuda::product {

inline constexpr int kCopyThreads = 256;

/// Halves of a line that one access may read.
inline int copy_vector(const void* from, std::int64_t width) {
  for (const int vector : {4, 2}) {
    if (rows_aligned(from, 2 * width, 2 * vector)) return vector;
  }
  return 1;
}

/// Copies consecutive lines of `width` halves to lines of whole vectors of eight, padded with zeros. A thread writes a
/// vector and reads kRead elements per access; the lines must be aligned to kRead elements.
template <int kRead>
__global__ void __launch_bounds__(kCopyThreads)
    copy_lines_kernel(const std::uint16_t* __restrict__ from, std::uint16_t* __restrict__ to, std::int64_t lines,
                      std::int64_t width, Divider line_vectors) {
  constexpr int kVector = 8;
  using Read = Pack<std::uint16_t, kRead>;
  const auto count = static_cast<std::int64_t>(line_vectors.divisor());
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * kCopyThreads + threadIdx.x;
  if (vector >= lines * count) return;
  const std::int64_t line =
      vector < (std::int64_t{1} << 31) ? line_vectors.divide(static_cast<std::uint32_t>(vector)) : vector / count;
  const std::int64_t first = (vector - line * count) * kVector;
  from += line * width + first;
  Pack<std::uint16_t, kVector> values{};
#pragma unroll
  for (int i = 0; i < kVector; i += kRead) {
    if (first + i >= width) continue;
    const Read read = *reinterpret_cast<const Read*>(from + i);
#pragma unroll
    for (int j = 0; j < kRead; ++j) values.values[i + j] = read.values[j];
  }
  reinterpret_cast<Pack<std::uint16_t, kVector>*>(to)[vector] = values;
}

inline constexpr int kTransposeTile = 32, kTransposeRows = 8;  // floats; threads along the other axis

/// Transposes each group's lines of `columns` elements to columns of `lines`, `pitch` apart and padded with zeros. A
/// block of threads moves a tile; groups are the grid's second axis.
__global__ void __launch_bounds__(kTransposeTile* kTransposeRows)
    transpose_kernel(const float* __restrict__ from, float* __restrict__ to, std::int64_t lines, std::int64_t columns,
                     std::int64_t pitch, std::int64_t line_stride, std::int64_t group_stride, int line_tiles) {
  __shared__ float tile[kTransposeTile][kTransposeTile + 1];
  const std::int64_t first_line = static_cast<std::int64_t>(blockIdx.x) % line_tiles * kTransposeTile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) / line_tiles * kTransposeTile;
  const int x = static_cast<int>(threadIdx.x);
  from += blockIdx.y * group_stride;
  to += blockIdx.y * columns * pitch;
#pragma unroll
  for (int first = 0; first < kTransposeTile; first += kTransposeRows) {
    const int y = first + static_cast<int>(threadIdx.y);
    const std::int64_t line = first_line + y, column = first_column + x;
    tile[y][x] = line < lines && column < columns ? from[line * line_stride + column] : 0.0F;
  }
  __syncthreads();
#pragma unroll
  for (int first = 0; first < kTransposeTile; first += kTransposeRows) {
    const int y = first + static_cast<int>(threadIdx.y);
    const std::int64_t line = first_line + x, column = first_column + y;
    if (line < pitch && column < columns) to[column * pitch + line] = tile[x][y];
  }
}

}  // namespace adjoint::cuda::product

// Tensors as rows along their last axis: each thread has one column of kRowsAThread rows, so that values that depend on
// the column are computed once, and neighbouring threads touch neighbouring elements. For .cu files.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/launch.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kRowsAThread = 4;

/// Splits the number of a row by an extent, with 32-bit arithmetic if there are few enough rows.
class RowSplit {
 public:
  RowSplit(std::int64_t extent, std::int64_t rows)
      : extent_(extent), divider_(rows < kLimit ? static_cast<std::uint32_t>(extent) : 1), narrow_(rows < kLimit) {}
  /// The quotient of n, which becomes the remainder.
  __device__ std::int64_t operator()(std::int64_t& n) const {
    if (narrow_) {
      auto rest = static_cast<std::int32_t>(n);
      const std::int32_t quotient = divider_.split(rest);
      n = rest;
      return quotient;
    }
    const std::int64_t quotient = n / extent_;
    n -= quotient * extent_;
    return quotient;
  }

 private:
  static constexpr std::int64_t kLimit = std::int64_t{1} << 31;

  std::int64_t extent_;
  Divider divider_;
  bool narrow_;
};

class Rows {
 public:
  Rows(std::int64_t rows, std::int64_t width) : rows_(rows), width_(width) {
    constexpr std::int64_t kThreads = 256;
    const std::int64_t blocks = (width + kThreads - 1) / kThreads;
    const std::int64_t columns = (width + blocks - 1) / blocks, lines = kThreads / columns;
    blocks_a_row_ = static_cast<std::uint32_t>(blocks);
    geometry_.block = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(lines));
    geometry_.grid = dim3(static_cast<unsigned>(blocks * ((rows - 1) / (lines * kRowsAThread) + 1)));
  }

  const LaunchGeometry& geometry() const { return geometry_; }

  __device__ std::int64_t width() const { return width_; }
  /// This thread's column; it may be width() or more.
  __device__ std::int64_t column() const { return std::int64_t{blockIdx.x % blocks_a_row_} * blockDim.x + threadIdx.x; }
  /// Calls f(row) for each of this thread's rows.
  template <class F>
  __device__ void each(const F& f) const {
    const std::int64_t first = std::int64_t{blockIdx.x / blocks_a_row_} * (blockDim.y * kRowsAThread) + threadIdx.y;
#pragma unroll
    for (int i = 0; i < kRowsAThread; ++i) {
      const std::int64_t row = first + std::int64_t{i} * blockDim.y;
      if (row < rows_) f(row);
    }
  }

 private:
  std::int64_t rows_, width_;
  std::uint32_t blocks_a_row_;
  LaunchGeometry geometry_;
};

}  // namespace adjoint::cuda

// Copies a factor for the kernel for products of matrices (product_kernel.cuh) where the copy engine cannot have it as
// it is: to lines that begin at multiples of 16 bytes.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/divider.h>

#include <cstdint>

namespace adjoint::cuda::product {

inline constexpr int kCopyThreads = 256;

/// Lines of `width` halves that follow each other, to lines of so many vectors of eight, with zeros behind. A thread
/// writes a vector and reads kRead elements at once, to which lines are aligned.
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

}  // namespace adjoint::cuda::product

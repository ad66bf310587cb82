// Index arithmetic that the plain kernels share: 32 bits if everything fits, else 64.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

/// n = quotient * divisor + remainder, for n >= 0.
template <class Index>
class Splitter {
 public:
  Splitter() = default;
  __host__ __device__ explicit Splitter(Index divisor) : divisor_(divisor) {}
  __device__ void split(Index n, Index& quotient, Index& remainder) const {
    quotient = n / divisor_;
    remainder = n - quotient * divisor_;
  }

 private:
  Index divisor_ = 1;
};

template <>
class Splitter<std::int32_t> {
 public:
  Splitter() = default;
  __host__ __device__ explicit Splitter(std::int32_t divisor) : divider_(static_cast<std::uint32_t>(divisor)) {}
  __device__ void split(std::int32_t n, std::int32_t& quotient, std::int32_t& remainder) const {
    quotient = static_cast<std::int32_t>(divider_.divide(static_cast<std::uint32_t>(n)));
    remainder = n - quotient * static_cast<std::int32_t>(divider_.divisor());
  }

 private:
  Divider divider_;
};

/// Returns true if all offsets and positions of the problem, and a grid's stride beyond them, fit in 32 bits.
inline bool fits_32_bits(const ConvGeometry& g) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  const auto below = [](std::int64_t a, std::int64_t b) { return a < kLimit && b < kLimit && a * b < kLimit; };
  bool fits = g.image_numel() < kLimit && g.feature_numel() < kLimit && g.filter_numel() < kLimit;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    fits = fits && below(g.feature[axis], g.stride[axis]) && below(g.kernel[axis], g.dilation[axis]) &&
           g.padding[axis] < kLimit;
  }
  return fits;
}

}  // namespace adjoint::cuda

// Tensors for .cu files on the emulator: contiguous, at a place of the test's choice.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace adjoint::testing {

/// `values` in the dtype, `offset` elements behind a multiple of 16 bytes.
inline Tensor placed(const std::vector<double>& values, const Shape& shape, DType dtype, std::int64_t offset) {
  Tensor place = Tensor::zeros({shape.numel() + offset}, {.dtype = dtype}).narrow(0, offset, shape.numel());
  place.copy_(Tensor::from_vector(values, {shape.numel()}, {.dtype = kFloat64}));
  return place.reshape(shape);
}

/// The same of NaN, for results.
inline Tensor unwritten(const Shape& shape, DType dtype, std::int64_t offset) {
  return placed(std::vector<double>(static_cast<std::size_t>(shape.numel()), std::nan("")), shape, dtype, offset);
}

}  // namespace adjoint::testing

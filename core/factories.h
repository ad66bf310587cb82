// Tensors of sequences and of random integers, beside Tensor's own factories (core/tensor.h). Random numbers come from
// the global generator (core/random.h), the same bits on every device.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

/// `steps` numbers from `start` to `end`, both included, evenly apart: float64s, rounded to the dtype; one step gives
/// `start`. Throws Error for negative steps, ends that are not finite or whose distance is not, and where the dtype
/// cannot hold an element, as Tensor::full does.
ADJOINT_API Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options = {});

/// Integers drawn uniformly from [low, high), of any dtype but bool; no number is likelier than another by more than
/// 2^-64. Throws Error for low not below high, and where the dtype cannot hold low or high - 1.
ADJOINT_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                           const TensorOptions& options = {.dtype = kInt64});
/// From [0, high).
ADJOINT_API Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options = {.dtype = kInt64});

/// The integers of [0, n) in random order (Fisher, Yates), drawn on the CPU. Throws Error for a negative n, and where
/// the dtype cannot hold n - 1.
ADJOINT_API Tensor randperm(std::int64_t n, const TensorOptions& options = {.dtype = kInt64});

}  // namespace adjoint

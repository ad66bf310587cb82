// Test data that is the same on every machine, and comparison of tensors with values.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace adjoint::testing {

/// `count` integers in [-magnitude, magnitude] from `seed` (SplitMix64).
std::vector<double> integers(std::int64_t count, std::int64_t magnitude, std::uint64_t seed);
/// `count` reals in [-1, 1).
std::vector<double> reals(std::int64_t count, std::uint64_t seed);

/// `values` as a non-contiguous tensor: same elements, every axis padded with other numbers in memory, axes in reverse
/// order.
Tensor non_contiguous(const std::vector<double>& values, const Shape& shape, const TensorOptions& options);

/// Fails, naming `what` and the first element that differs, unless every element equals `expected` rounded once to the
/// tensor's dtype. NaN equals NaN.
void expect_values(const std::string& what, const Tensor& actual, const std::vector<double>& expected);
/// Fails unless both tensors have the same shape, dtype and bits.
void expect_same_bits(const std::string& what, const Tensor& actual, const Tensor& expected);
/// Fails if |actual - expected| > tolerance * (1 + |expected|).
void expect_near(const std::string& what, const Tensor& actual, const std::vector<double>& expected, double tolerance);

}  // namespace adjoint::testing

// Factories of tensors: Tensor's own (core/tensor/tensor.h) as functions, and sequences and random integers. Random
// numbers come from the global generator (core/tensor/random.h), with the same bits on every device.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace adjoint {

// ---- Tensor's own: zeros({2, 3}) and zeros(2, 3) are Tensor::zeros({2, 3}).

#define ADJOINT_FACTORY(NAME)                                                                                        \
  inline Tensor NAME(const Shape& shape, const TensorOptions& options = {}) { return Tensor::NAME(shape, options); } \
  template <std::integral... Rest>                                                                                   \
  requires(sizeof...(Rest) > 0) Tensor NAME(std::int64_t first, Rest... rest) {                                      \
    return Tensor::NAME(Shape{first, static_cast<std::int64_t>(rest)...});                                           \
  }
ADJOINT_FACTORY(empty)
ADJOINT_FACTORY(zeros)
ADJOINT_FACTORY(ones)
ADJOINT_FACTORY(rand)
ADJOINT_FACTORY(randn)
#undef ADJOINT_FACTORY
inline Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options = {}) {
  return Tensor::full(shape, value, options);
}
inline Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step = 1,
                     const TensorOptions& options = {}) {
  return Tensor::arange(start, end, step, options);
}
inline Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options) {
  return Tensor::arange(start, end, options);
}
inline Tensor arange(const Scalar& end, const TensorOptions& options = {}) { return Tensor::arange(end, options); }
inline Tensor eye(std::int64_t n, const TensorOptions& options = {}) { return Tensor::eye(n, options); }

/// Numbers in literal notation, nested to any depth of a tensor: 3, {1, 2}, {{1, 2}, {3, 4}}, or a vector.
class ADJOINT_API Values {
 public:
  template <class T>
  requires std::constructible_from<Scalar, T> Values(T value) {  // NOLINT(google-explicit-constructor)
    add(value);
  }
  template <class T>
  requires std::constructible_from<Scalar, T> Values(  // NOLINT(google-explicit-constructor)
      const std::vector<T>& values)
      : shape_{static_cast<std::int64_t>(values.size())} {
    for (const T value : values) add(value);
  }
  /// Throws Error if the parts differ in shape.
  Values(std::initializer_list<Values> parts);

 private:
  friend ADJOINT_API Tensor tensor(const Values& values, const TensorOptions& options);
  void add(const Scalar& value) { scalars_.push_back(value); }

  Shape shape_;
  std::vector<Scalar> scalars_;
};

/// A tensor of the numbers. The default dtype is float32 if one of them is real, bool if all are bools, and int64
/// otherwise. Throws Error if the dtype cannot hold a value, as Tensor::full does.
ADJOINT_API Tensor tensor(const Values& values, const TensorOptions& options = {});

// ---- Sequences and random integers.

/// `steps` evenly spaced numbers from `start` to `end`, both included: float64s, rounded to the dtype; one step gives
/// `start`. Throws Error for negative steps, ends that are not finite or whose distance is not, and if the dtype cannot
/// hold an element, as Tensor::full does.
ADJOINT_API Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options = {});

/// Integers drawn uniformly from [low, high), of any dtype but bool, by default int64; probabilities differ by at most
/// 2^-64. Throws Error for low not below high, and if the dtype cannot hold low or high - 1.
ADJOINT_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const TensorOptions& options = {});
/// From [0, high).
ADJOINT_API Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options = {});

/// The integers of [0, n) in random order (Fisher, Yates), drawn on the CPU; by default int64. Throws Error for a
/// negative n, and if the dtype cannot hold n - 1.
ADJOINT_API Tensor randperm(std::int64_t n, const TensorOptions& options = {});

}  // namespace adjoint

// Shapes and strides: short lists of int64, stored in place (no allocation), with checked products.
#pragma once

#include <adjoint/core/base/export.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <string>
#include <vector>

namespace adjoint {

/// The most axes a tensor can have.
inline constexpr std::size_t kMaxRank = 8;

/// A list of at most kMaxRank integers. Throws Error for an index outside the list.
class ADJOINT_API Dims {
 public:
  using value_type = std::int64_t;

  constexpr Dims() = default;
  /// Throws Error beyond kMaxRank values.
  Dims(std::initializer_list<std::int64_t> values) : Dims(values.begin(), values.end()) {}
  Dims(const std::vector<std::int64_t>& values) : Dims(values.begin(), values.end()) {}
  /// A list of one value: x.sum(1) is x.sum({1}), and Tensor::zeros(3) has the shape (3,).
  template <std::integral T>
  requires(!std::same_as<T, bool>) Dims(T value)
      : values_{static_cast<std::int64_t>(value)}, size_(1) {}  // NOLINT(google-explicit-constructor)
  template <std::input_iterator It>
  Dims(It first, It last) {
    for (; first != last; ++first) push_back(static_cast<std::int64_t>(*first));
  }
  static Dims filled(std::size_t size, std::int64_t value) {
    Dims dims;
    for (std::size_t i = 0; i < size; ++i) dims.push_back(value);
    return dims;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](std::size_t i) const {
    if (i >= size_) [[unlikely]]
      outside(i);
    return values_[i];
  }
  std::int64_t& operator[](std::size_t i) {
    if (i >= size_) [[unlikely]]
      outside(i);
    return values_[i];
  }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  std::int64_t* begin() { return values_.data(); }
  std::int64_t* end() { return values_.data() + size_; }
  std::int64_t back() const { return (*this)[size_ - std::size_t{1}]; }

  void push_back(std::int64_t value) {
    if (size_ == kMaxRank) too_long();
    values_[size_++] = value;
  }
  /// Before place `at`, which may be size().
  void insert(std::size_t at, std::int64_t value);
  void erase(std::size_t at);

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (a.values_[i] != b.values_[i]) return false;
    }
    return true;
  }

 private:
  [[noreturn]] static void too_long();
  [[noreturn]] void outside(std::size_t at) const;

  std::array<std::int64_t, kMaxRank> values_{};
  std::uint8_t size_ = 0;
};

/// A tensor's extents. An empty Shape is a scalar's: numel() is 1.
class ADJOINT_API Shape : public Dims {
 public:
  using Dims::Dims;
  constexpr Shape() = default;
  Shape(const Dims& dims) : Dims(dims) {}

  /// The product of the extents. Throws Error if an extent is negative or the product exceeds 63 bits.
  std::int64_t numel() const;
};

using Strides = Dims;

/// "(2, 3)"; a single value prints as "(2,)", like PyTorch's and Python's tuples.
ADJOINT_API std::string to_string(const Dims& dims);
ADJOINT_API std::ostream& operator<<(std::ostream& out, const Dims& dims);
/// Row-major strides, in elements; an extent of 0 counts as 1. All 0 if there are no elements and a stride would exceed
/// 63 bits.
ADJOINT_API Strides contiguous_strides(const Shape& shape);
/// The axis in [0, rank) that `axis` in [-rank, rank) names. Throws Error, naming `op`, outside.
ADJOINT_API std::size_t resolve_axis(const char* op, std::int64_t axis, std::size_t rank);
/// The shape that two shapes broadcast to (NumPy's rule). Throws Error, naming `op`, if they do not broadcast.
ADJOINT_API Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

}  // namespace adjoint

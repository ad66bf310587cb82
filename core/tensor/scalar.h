// Scalar: one number, with its kind: bool, integer or real.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/dtype.h>

#include <cstdint>
#include <iosfwd>
#include <type_traits>

namespace adjoint {

/// Accepts any number in a call, and is the result of Tensor::item(). It is constructed from every arithmetic type of
/// C++, whose kind it keeps: 3 is an integer, 3.0 a real. It converts to double, so that it computes, compares and
/// prints like a number; to<T>() converts to others.
class ADJOINT_API Scalar {
 public:
  template <class T>
  requires(std::is_arithmetic_v<T> || is_reduced_float<T>) Scalar(T value) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_same_v<T, bool>) {
      kind_ = Kind::kTruth;
      integer_ = value ? 1 : 0;
    } else if constexpr (std::is_integral_v<T>) {
      kind_ = Kind::kInteger;
      if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t)) check_fits(value);
      integer_ = static_cast<std::int64_t>(value);
    } else {
      kind_ = Kind::kReal;
      real_ = static_cast<double>(value);
    }
  }

  bool is_floating_point() const { return kind_ == Kind::kReal; }
  bool is_bool() const { return kind_ == Kind::kTruth; }
  /// The dtype of a tensor made from it: kBool, kInt64 or kFloat32.
  DType dtype() const { return is_bool() ? kBool : is_floating_point() ? kFloat32 : kInt64; }

  /// The number. Throws Error for an integer that float64 cannot hold, beyond 2^53: use to<std::int64_t>().
  operator double() const { return kind_ == Kind::kReal ? real_ : exact(); }  // NOLINT(google-explicit-constructor)
  /// The number as a T, which must be the C++ type of a dtype. Throws Error if T cannot hold it, as Tensor::full does.
  template <class T>
  T to() const;

 private:
  enum class Kind : std::uint8_t { kTruth, kInteger, kReal };

  static void check_fits(std::uint64_t value);
  double exact() const;

  Kind kind_;
  union {
    std::int64_t integer_;
    double real_;
  };
};

/// Prints the number in the stream's format; bools as words.
ADJOINT_API std::ostream& operator<<(std::ostream& out, const Scalar& value);

}  // namespace adjoint

// Element types: the DType tag, the C++ type behind each tag, and the two 16-bit floating-point formats.
#pragma once

#include <adjoint/core/base/export.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>

#if defined(__CUDACC__)
#define ADJOINT_HD __host__ __device__
#else
#define ADJOINT_HD
#endif

namespace adjoint {

enum class DType : std::uint8_t { kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool };

inline constexpr DType kFloat16 = DType::kFloat16;
inline constexpr DType kBFloat16 = DType::kBFloat16;
inline constexpr DType kFloat32 = DType::kFloat32;
inline constexpr DType kFloat64 = DType::kFloat64;
inline constexpr DType kInt32 = DType::kInt32;
inline constexpr DType kInt64 = DType::kInt64;
inline constexpr DType kUInt8 = DType::kUInt8;
inline constexpr DType kBool = DType::kBool;

namespace detail {
[[noreturn]] ADJOINT_API void no_such_dtype(DType dtype);
}  // namespace detail

/// Bytes of one element. Throws Error for a value outside the enumeration.
constexpr std::int64_t element_size(DType dtype) {
  constexpr std::int64_t sizes[] = {2, 2, 4, 8, 4, 8, 1, 1};
  if (dtype > DType::kBool) detail::no_such_dtype(dtype);
  return sizes[static_cast<std::size_t>(dtype)];
}
constexpr bool is_floating_point(DType dtype) { return dtype <= DType::kFloat64; }
/// The distance from 1 to the next number of a floating-point dtype.
constexpr double epsilon(DType dtype) {
  switch (dtype) {
    case kFloat16: return 0x1p-10;
    case kBFloat16: return 0x1p-7;
    case kFloat32: return 0x1p-23;
    default: return 0x1p-52;
  }
}
/// "float32", "bool", ...
ADJOINT_API std::string to_string(DType dtype);
ADJOINT_API std::ostream& operator<<(std::ostream& out, DType dtype);

namespace detail {

// Rounds to nearest, ties to even; NaN stays NaN, with any payload. CUDA devices have an instruction for each.
ADJOINT_HD constexpr std::uint16_t bfloat16_bits(float value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    std::uint16_t converted;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(converted) : "f"(value));
    return converted;
  }
#endif
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

ADJOINT_HD constexpr std::uint16_t float16_bits(float value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    std::uint16_t converted;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(converted) : "f"(value));
    return converted;
  }
#endif
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);   // NaN
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to 65520 or more: infinity
  if (magnitude < 0x38800000U) {                                                    // below 2^-14: subnormal
    // Adding 0.5 leaves round(value * 2^24) in the low bits of the sum, correctly rounded by the addition itself.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rebased = magnitude - 0x38000000U;
  return static_cast<std::uint16_t>(sign | ((rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13));
}

ADJOINT_HD constexpr float float16_value(std::uint16_t half) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    float converted;
    asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(half));
    return converted;
  }
#endif
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  if (magnitude < 0x400U) {
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
}

}  // namespace detail

/// IEEE binary16. Arithmetic happens in float; a result is rounded to nearest even.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  ADJOINT_HD constexpr explicit float16(float value) : bits(detail::float16_bits(value)) {}
  ADJOINT_HD constexpr operator float() const { return detail::float16_value(bits); }
};

/// The upper half of a binary32: 8 bits of exponent, 7 of fraction.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  ADJOINT_HD constexpr explicit bfloat16(float value) : bits(detail::bfloat16_bits(value)) {}
  ADJOINT_HD constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class T>
inline constexpr bool is_reduced_float = false;
template <>
inline constexpr bool is_reduced_float<float16> = true;
template <>
inline constexpr bool is_reduced_float<bfloat16> = true;

/// The DType of a C++ element type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float16> {
  static constexpr DType value = kFloat16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = kBFloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = kFloat64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = kInt32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = kInt64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = kUInt8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = kBool;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// Calls `f.template operator()<T>()` with the C++ type of `dtype`: `visit(dtype, [&]<class T>() { ... })`.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case kFloat16: return f.template operator()<float16>();
    case kBFloat16: return f.template operator()<bfloat16>();
    case kFloat32: return f.template operator()<float>();
    case kFloat64: return f.template operator()<double>();
    case kInt32: return f.template operator()<std::int32_t>();
    case kInt64: return f.template operator()<std::int64_t>();
    case kUInt8: return f.template operator()<std::uint8_t>();
    case kBool: return f.template operator()<bool>();
  }
  detail::no_such_dtype(dtype);
}

/// visit() over unsigned integers of the dtype's size, for code that only moves bits.
template <class F>
decltype(auto) visit_bits(DType dtype, F&& f) {
  switch (element_size(dtype)) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

/// visit() over the four floating-point types; the caller has checked is_floating_point(dtype).
template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case kFloat16: return f.template operator()<float16>();
    case kBFloat16: return f.template operator()<bfloat16>();
    case kFloat64: return f.template operator()<double>();
    default: break;
  }
  return f.template operator()<float>();
}

}  // namespace adjoint

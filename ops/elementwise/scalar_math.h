// Functions of one number, with the names of the functions of tensors, so that one formula serves both (functor.h). On
// the host, exp, tanh and selection are branch-free in float32, so that loops over them vectorise; the standard library
// provides the rest. Errors: 1.1 units in the last place for exp, 2.5 for tanh.
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace adjoint::scalar {

/// condition ? a : b by masks. Compilers turn the operator itself into branches if a side is loaded or computed only
/// for it, and then do not vectorise.
template <class T>
ADJOINT_HD constexpr T select(bool condition, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
  const auto mask = static_cast<Bits>(-static_cast<std::int64_t>(condition));
  return std::bit_cast<T>(static_cast<Bits>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask)));
}

namespace detail {

/// exp(r) - 1 and n, where x = n log(2) + r with |r| <= log(2) / 2.
struct ReducedExp {
  float expm1;
  std::int32_t n;
};

inline ReducedExp reduce_exp(float x) {
  constexpr double kLog2 = 0.693147180559945309417232121458;
  constexpr float kHigh = 0x1.62e4p-1F;  // few enough bits for n * kHigh to be exact
  constexpr float kLow = static_cast<float>(kLog2 - static_cast<double>(kHigh));
  constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  const float shifted = x * static_cast<float>(1.0 / kLog2) + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kHigh) - n * kLow;
  // Taylor series: the first omitted term is below 2^-27 of the result.
  const float tail =
      1.0F / 2 + r * (1.0F / 6 + r * (1.0F / 24 + r * (1.0F / 120 + r * (1.0F / 720 + r * (1.0F / 5040)))));
  return {r + r * r * tail, std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound)};
}

/// 2^n for n in [-126, 127].
inline float power_of_two(std::int32_t n) { return std::bit_cast<float>((n + 127) << 23); }

inline float exp(float x) {
  // Beyond these the result is infinity or 0 anyway; a NaN passes both comparisons.
  const float above = select(x < -105.0F, -105.0F, x);
  const ReducedExp e = reduce_exp(select(above > 90.0F, 90.0F, above));
  // Scales in two steps, so that neither power leaves float32's range and a subnormal result is rounded once.
  const std::int32_t half = e.n >> 1;
  return (1.0F + e.expm1) * power_of_two(half) * power_of_two(e.n - half);
}

/// With u = exp(2|x|) - 1: u / (u + 2), which keeps its relative accuracy near 0.
inline float tanh(float x) {
  const float doubled = 2.0F * std::fabs(x);
  const ReducedExp e = reduce_exp(select(doubled > 20.0F, 20.0F, doubled));
  const float power = power_of_two(e.n);
  const float u = power * e.expm1 + (power - 1.0F);
  return std::copysign(u / (u + 2.0F), x);
}

}  // namespace detail

template <class T>
concept Real = std::is_floating_point_v<T>;

template <Real T>
ADJOINT_HD inline T exp(T x) {
#if !defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == sizeof(float)) return detail::exp(x);
#endif
  return std::exp(x);
}

template <Real T>
ADJOINT_HD inline T tanh(T x) {
#if !defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == sizeof(float)) return detail::tanh(x);
#endif
  return std::tanh(x);
}

#define ADJOINT_SCALAR_FUNCTION(name, function) \
  template <Real T>                             \
  ADJOINT_HD inline T name(T x) {               \
    return std::function(x);                    \
  }
ADJOINT_SCALAR_FUNCTION(abs, fabs)
ADJOINT_SCALAR_FUNCTION(acos, acos)
ADJOINT_SCALAR_FUNCTION(asin, asin)
ADJOINT_SCALAR_FUNCTION(atan, atan)
ADJOINT_SCALAR_FUNCTION(cos, cos)
ADJOINT_SCALAR_FUNCTION(cosh, cosh)
ADJOINT_SCALAR_FUNCTION(erf, erf)
ADJOINT_SCALAR_FUNCTION(expm1, expm1)
ADJOINT_SCALAR_FUNCTION(log, log)
ADJOINT_SCALAR_FUNCTION(log1p, log1p)
ADJOINT_SCALAR_FUNCTION(log2, log2)
ADJOINT_SCALAR_FUNCTION(sin, sin)
ADJOINT_SCALAR_FUNCTION(sinh, sinh)
ADJOINT_SCALAR_FUNCTION(sqrt, sqrt)
ADJOINT_SCALAR_FUNCTION(tan, tan)
#undef ADJOINT_SCALAR_FUNCTION

template <Real T>
ADJOINT_HD inline T sigmoid(T x) {
  return T{1} / (T{1} + exp(-x));
}
template <Real T>
ADJOINT_HD inline T clamp_max(T x, std::type_identity_t<T> high) {
  return x > high ? high : x;
}
template <Real T>
ADJOINT_HD inline T clamp_min(T x, std::type_identity_t<T> low) {
  return select(x < low, low, x);
}
template <Real T>
ADJOINT_HD inline T clamp(T x, std::type_identity_t<T> low, std::type_identity_t<T> high) {
  return clamp_max(clamp_min(x, low), high);
}
/// sqrt(a^2 + b^2), without overflow or underflow of the squares: a power of two scales them, which rounds nothing.
template <Real T>
ADJOINT_HD inline T hypot(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  constexpr Bits kOne = kExponent & (kExponent >> 1), kLeast = kExponent & (~kExponent + 1);
  // The larger operand's exponent, clamped so that its power of two and the reciprocal of that are normal numbers.
  const Bits of_a = std::bit_cast<Bits>(a) & kExponent, of_b = std::bit_cast<Bits>(b) & kExponent;
  const Bits most = of_a > of_b ? of_a : of_b;
  const Bits above = most > kLeast ? most : kLeast;
  const Bits exponent = above < 2 * kOne - kLeast ? above : 2 * kOne - kLeast;
  const T down = std::bit_cast<T>(static_cast<Bits>(2 * kOne - exponent)), up = std::bit_cast<T>(exponent);
  const T x = a * down, y = b * down;
  return std::sqrt(x * x + y * y) * up;
}
template <Real T>
ADJOINT_HD inline T zeros_like(T) {
  return T{0};
}
template <Real T>
ADJOINT_HD inline T where(bool condition, T a, std::type_identity_t<T> b) {
  return select(condition, a, b);
}

}  // namespace adjoint::scalar

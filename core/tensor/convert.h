// Converts one element from one dtype to another, for host and device alike: convert() defines every cast of a tensor,
// on every device, and holds() defines which single values a dtype refuses.
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace adjoint {
namespace detail {

/// `value` in float32 or, if that is not exact, the neighbour whose last bit is 1: rounded again, to fewer bits, it
/// gives the result of a single rounding (Boldo, Melquiond: "Emulation of a FMA and correctly rounded sums: proved
/// algorithms using rounding to odd", IEEE Transactions on Computers 57, 2008).
ADJOINT_HD constexpr float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  const bool away = value < 0.0 ? back < value : back > value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - (away ? 1U : 0U)) | 1U);
}

/// The same from an integer to float64.
ADJOINT_HD constexpr double round_to_odd(std::int64_t value) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53, kDropped = 0x7ff;
  if (value >= -kExact && value <= kExact) return static_cast<double>(value);
  return static_cast<double>((value & ~kDropped) | ((value & kDropped) != 0 ? kDropped + 1 : 0));
}

/// The first number above To's range, a power of two, exact in every type of computation.
template <class To, class From>
ADJOINT_HD constexpr From beyond() {
  return From{2} * static_cast<From>(std::numeric_limits<To>::max() / 2 + 1);
}

// By selection, so that loops over it vectorise; a number outside the range is never cast, because that would be
// undefined.
template <class To, class From>
ADJOINT_HD constexpr To saturate(From value) {
  constexpr To kLeast = std::numeric_limits<To>::min(), kMost = std::numeric_limits<To>::max();
  constexpr auto kFirst = static_cast<From>(kLeast), kBeyond = beyond<To, From>();
  const From from_first = value >= kFirst ? value : From{0};
  const To cut = static_cast<To>(from_first < kBeyond ? from_first : From{0});
  const To up = value >= kBeyond ? kMost : cut;
  return value < kFirst ? kLeast : up;
}

}  // namespace detail

/// A cast's rules:
/// - to bool: false where it equals 0, else true, for NaN too;
/// - to a floating-point type: rounded once, to nearest, ties to even; larger values become infinity;
/// - from a floating-point type to an integer: cut towards 0; beyond the range, the end that is nearer; NaN becomes 0;
/// - from an integer to a narrower one: modulo 2^bits, as arithmetic on integers wraps around.
template <class To, class From>
ADJOINT_HD constexpr To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_reduced_float<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (is_reduced_float<To>) {
    if constexpr (std::is_same_v<From, float> || sizeof(From) == 1) {
      return To(static_cast<float>(value));
    } else if constexpr (std::is_same_v<From, std::int64_t>) {
      return To(detail::round_to_odd(detail::round_to_odd(value)));
    } else {
      return To(detail::round_to_odd(static_cast<double>(value)));
    }
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return detail::saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/// Returns true if To can hold `value`: an integer type exactly, bool 0 and 1, a floating-point type without turning a
/// finite number into an infinity.
template <class To, class From>
constexpr bool holds(From value) {
  if constexpr (std::is_same_v<To, From> || std::is_same_v<From, bool>) {
    return true;
  } else if constexpr (is_reduced_float<From>) {
    return holds<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value == From{0} || value == From{1};
  } else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    return std::in_range<To>(value);
  } else if constexpr (std::is_integral_v<To>) {
    return value < detail::beyond<To, From>() && static_cast<From>(convert<To>(value)) == value;
  } else {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto was = static_cast<double>(value), is = static_cast<double>(convert<To>(value));
    return (is != kInfinity && is != -kInfinity) || was == is;
  }
}

/// The type of arithmetic on T: float for the 16-bit floats, else T itself.
template <class T>
using compute_t = std::conditional_t<is_reduced_float<T>, float, T>;

}  // namespace adjoint

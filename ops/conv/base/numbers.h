// Tiles that cover a length, for the planners.
#pragma once

#include <cstdint>

namespace adjoint::cuda {

/// a / b, rounded up; a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The greatest multiple of `unit` not above a; unit > 0.
constexpr std::int64_t floor_to(std::int64_t a, std::int64_t unit) {
  return (a >= 0 ? a / unit : -ceil_div(-a, unit)) * unit;
}

}  // namespace adjoint::cuda

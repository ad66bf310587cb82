// Integer division, rounded down or up. Internal.
#pragma once

#include <cstdint>

namespace adjoint {

/// a / b, rounded down; b > 0.
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// a / b, rounded up; b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

}  // namespace adjoint

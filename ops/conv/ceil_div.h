// Tiles that cover a length, for the planners.
#pragma once

#include <cstdint>

namespace adjoint::cuda {

/// a / b, rounded up; a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace adjoint::cuda

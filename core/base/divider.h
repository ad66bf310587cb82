// Division by a number known before a kernel starts: one multiplication and a shift, not some twenty instructions
// (Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994).
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <cstdint>

namespace adjoint {

/// Divides n in [0, 2^31) by a divisor in [1, 2^31).
class Divider {
 public:
  ADJOINT_HD constexpr Divider() : Divider(1) {}
  ADJOINT_HD constexpr explicit Divider(std::uint32_t divisor) : divisor_(divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    // 2^32 * (2^shift / divisor - 1), rounded up: below 2^32, since 2^shift < 2 * divisor.
    multiplier_ = static_cast<std::uint32_t>((((std::uint64_t{1} << shift_) - divisor) << 32) / divisor + 1);
  }

  ADJOINT_HD constexpr std::uint32_t divisor() const { return divisor_; }
  ADJOINT_HD constexpr std::uint32_t divide(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * multiplier_) >> 32);
    return (high + n) >> shift_;  // the sum stays below 2^32 because n stays below 2^31
  }
  /// The quotient of n, which becomes the remainder.
  ADJOINT_HD constexpr std::int32_t split(std::int32_t& n) const {
    const std::int32_t whole = n, quotient = static_cast<std::int32_t>(divide(static_cast<std::uint32_t>(whole)));
    n = whole - quotient * static_cast<std::int32_t>(divisor_);
    return quotient;
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t multiplier_ = 1;
  std::uint32_t shift_ = 0;
};

}  // namespace adjoint

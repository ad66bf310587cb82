#include <adjoint/core/base/divider.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace adjoint {
namespace {

constexpr std::uint32_t kLargest = 0x7fffffffU;

void expect_divides(std::uint32_t n, std::uint32_t d) { ASSERT_EQ(Divider(d).divide(n), n / d) << n << " / " << d; }

TEST(Divider, AgreesWithDivisionAroundMultiplesOfSmallDivisors) {
  for (std::uint32_t d = 1; d <= 1000; ++d) {
    for (std::uint32_t q : {0U, 1U, 2U, 999U, kLargest / d}) {
      const std::uint32_t n = q * d;
      expect_divides(n, d);
      if (n > 0) expect_divides(n - 1, d);
      if (n < kLargest) expect_divides(n + 1, d);
    }
  }
}

TEST(Divider, AgreesWithDivisionAtTheEndsOfItsRange) {
  for (int shift = 1; shift < 31; ++shift) {
    for (std::uint32_t d : {(1U << shift) - 1, 1U << shift, (1U << shift) + 1}) {
      for (std::uint32_t n : {0U, d - 1, d, d + 1, kLargest - 1, kLargest}) {
        if (n <= kLargest) expect_divides(n, d);
      }
    }
  }
  expect_divides(kLargest, kLargest);
  expect_divides(kLargest - 1, kLargest);
}

TEST(Divider, AgreesWithDivisionOnRandomNumbers) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t d = (random() >> 1) >> (random() % 31);
    expect_divides(random() >> 1, d == 0 ? 1 : d);
  }
}

}  // namespace
}  // namespace adjoint

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and the maps from
// its bits to numbers, for host and device alike.
#pragma once

#include <adjoint/core/dtype.h>

#include <cmath>
#include <cstdint>

namespace adjoint::philox {

struct Block {
  std::uint32_t word[4];
};

ADJOINT_HD inline Block generate(std::uint64_t seed, std::uint64_t counter) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32), c2 = 0,
                c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// A block gives two numbers: each from 53 of 64 bits, so that every dtype sees the same value, rounded.
inline constexpr int kNumbersPerBlock = 2;

/// Uniform on [0, 1), exact in float64; number i (0 or 1) of a block.
ADJOINT_HD inline double uniform(const Block& block, int i) {
  const std::uint64_t bits = std::uint64_t{block.word[2 * i]} << 32 | block.word[2 * i + 1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// Standard normal by Box and Muller (1958), in float64 so that host and device agree after rounding to float32.
ADJOINT_HD inline double normal(const Block& block, int i) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(block, 0)));
  const double angle = 6.283185307179586476925286766559 * uniform(block, 1);
  return radius * (i == 0 ? std::cos(angle) : std::sin(angle));
}

/// low + (high - low) * u in the storage type. u is cut (not rounded) to the type's bits first, so that it stays below
/// 1; fma is spelt out, so that host and device round once each.
template <class T>
ADJOINT_HD inline T to_uniform(double u, double low, double high) {
  constexpr int kBits = sizeof(T) == 8 ? 53 : sizeof(T) == 4 ? 24 : dtype_of<T> == kFloat16 ? 11 : 8;
  constexpr double kScale = static_cast<double>(std::int64_t{1} << kBits);
  const double cut = static_cast<double>(static_cast<std::int64_t>(u * kScale)) / kScale;
  const double value = std::fma(high - low, cut, low);
  if constexpr (is_reduced_float<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace adjoint::philox

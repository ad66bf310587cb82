// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and the maps from
// its bits to numbers, for host and device alike.
#pragma once

#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/dtype.h>

#include <cmath>
#include <cstdint>
#include <limits>

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

// A block gives two numbers, each from 53 of 64 bits, so that every dtype sees the same value, rounded.
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

/// The start of a tensor's numbers: block `offset`, or `*base` blocks after it (Generator::set_device_base).
struct Position {
  std::uint64_t seed;
  std::uint64_t offset;
  const std::uint64_t* base;
};

/// The neighbour of `value` in T, above or below it.
template <class T>
T neighbour(T value, bool above) {
  if constexpr (is_reduced_float<T>) {
    const bool negative = (value.bits & 0x8000U) != 0, zero = (value.bits & 0x7fffU) == 0;
    T next;
    next.bits = static_cast<std::uint16_t>(zero ? (above ? 0x0001U : 0x8001U)
                                                : value.bits + (negative == above ? 0xffffU : 1U));  // minus or plus 1
    return next;
  } else {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    return std::nextafter(value, above ? kInfinity : -kInfinity);
  }
}

/// Uniform on T's numbers from low up to but not including high: low + (high - low) * u, rounded, and clamped to the
/// nearest number inside the range. If T has no number inside, low, rounded.
template <class T>
class Uniform {
 public:
  Uniform(double low, double high) : low_(low), range_(high - low), first_(convert<T>(low)), last_(convert<T>(high)) {
    const T rounded = first_;
    if (convert<double>(first_) < low) first_ = neighbour(first_, true);
    if (convert<double>(last_) >= high) last_ = neighbour(last_, false);
    if (last_ < first_) first_ = last_ = rounded;
  }
  /// Number i (0 or 1) of a block. u is truncated (not rounded) to T's bits first, which keeps [0, 1) exact; fma is
  /// explicit, so that host and device round once each.
  ADJOINT_HD T operator()(const Block& block, int i) const {
    constexpr int kBits = sizeof(T) == 8 ? 53 : sizeof(T) == 4 ? 24 : dtype_of<T> == kFloat16 ? 11 : 8;
    constexpr double kScale = static_cast<double>(std::int64_t{1} << kBits);
    const double cut = static_cast<double>(static_cast<std::int64_t>(uniform(block, i) * kScale)) / kScale;
    const T number = convert<T>(std::fma(range_, cut, low_));
    return number < first_ ? first_ : last_ < number ? last_ : number;
  }

 private:
  double low_, range_;
  T first_, last_;
};

/// Uniform on the integers of [low, high): the upper half of 64 bits times their number.
template <class T>
class Integers {
 public:
  Integers(std::int64_t low, std::int64_t high)
      : low_(static_cast<std::uint64_t>(low)), count_(static_cast<std::uint64_t>(high) - low_) {}
  ADJOINT_HD T operator()(const Block& block, int i) const {
    const std::uint64_t bits = std::uint64_t{block.word[2 * i]} << 32 | block.word[2 * i + 1];
#if defined(__CUDA_ARCH__)
    const std::uint64_t part = __umul64hi(bits, count_);
#else
    __extension__ using Wide = unsigned __int128;
    const auto part = static_cast<std::uint64_t>(Wide{bits} * count_ >> 64);
#endif
    return convert<T>(static_cast<std::int64_t>(low_ + part));
  }

 private:
  std::uint64_t low_, count_;
};

template <class T>
class Normal {
 public:
  Normal(double mean, double standard_deviation) : mean_(mean), standard_deviation_(standard_deviation) {}
  ADJOINT_HD T operator()(const Block& block, int i) const {
    return convert<T>(std::fma(standard_deviation_, normal(block, i), mean_));
  }

 private:
  double mean_, standard_deviation_;
};

}  // namespace adjoint::philox

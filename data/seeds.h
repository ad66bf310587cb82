// A loader's random numbers: a generator for each purpose, epoch and number. Internal.
#pragma once

#include <adjoint/core/tensor/random.h>

#include <cstdint>

namespace adjoint::data {

/// Numbers of examples and batches are below 2^kNumberBits, those of epochs below 2^(63 - kNumberBits).
inline constexpr int kNumberBits = 40;
inline constexpr std::int64_t kMaxNumber = std::int64_t{1} << kNumberBits;

/// Stream 0 of a seed determines the epochs' orders; the other streams, one per epoch, its examples.
inline Generator generator_for(std::uint64_t seed, std::int64_t stream, std::int64_t number) {
  Generator source(seed);
  source.seek(static_cast<std::uint64_t>(stream) << kNumberBits | static_cast<std::uint64_t>(number));
  return Generator(source.next());
}

}  // namespace adjoint::data

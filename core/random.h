// Random numbers: the counter-based generator Philox4x32-10. The same seed gives the same bits on every device.
#pragma once

#include <adjoint/core/export.h>

#include <cstdint>

namespace adjoint {

class Tensor;

/// A position in one stream of 128-bit blocks. Copy it to remember the position.
class ADJOINT_API Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  std::uint64_t seed() const { return seed_; }
  /// Blocks used so far.
  std::uint64_t offset() const { return offset_; }
  void seek(std::uint64_t offset) { offset_ = offset; }
  /// 64 random bits; uses one block.
  std::uint64_t next();
  /// Uniform in [0, bound) without modulo bias (Lemire 2019); bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Reserves `blocks` blocks and returns the first one's number.
  std::uint64_t reserve(std::uint64_t blocks);

 private:
  std::uint64_t seed_;
  std::uint64_t offset_ = 0;
};

/// Seeds this thread's generator, which rand, randn, uniform_, normal_ and the initialisers draw from. Starts at seed
/// 0.
ADJOINT_API void manual_seed(std::uint64_t seed);
ADJOINT_API Generator& default_generator();

/// Fill a floating-point tensor in place from `generator`.
ADJOINT_API void fill_uniform(Tensor& tensor, double low, double high, Generator& generator);
ADJOINT_API void fill_normal(Tensor& tensor, double mean, double standard_deviation, Generator& generator);

}  // namespace adjoint

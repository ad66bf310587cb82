// Random numbers: the counter-based generator Philox4x32-10. The same seed gives the same bits on every device.
//
// Every thread draws from its own default generator. manual_seed() sets the process's seed, initially 0: the thread
// that calls it (initially the one that loads the library) draws from Generator(seed), and every other thread, new or
// running, from Generator(seed).fork(number). The other threads are numbered from 0 in the order in which they first
// draw after the seed was set. If the order of racing threads must not matter, hold a GeneratorGuard in each of them. A
// DataLoader does so around Dataset::get().
#pragma once

#include <adjoint/core/base/export.h>

#include <cstdint>

namespace adjoint {

class Tensor;

/// A position in one stream of 128-bit blocks. Copy it to remember the position.
class ADJOINT_API Generator {
 public:
  constexpr explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
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
  /// A generator with another seed, derived from this one's seed and `number` (below 2^63).
  Generator fork(std::uint64_t number) const;

  /// Makes a CUDA graph draw new numbers in every replay: fills of that device's tensors begin *base blocks after
  /// offset(), and read *base, in the device's memory, as they run. Write the number of used blocks there before each
  /// replay. Null, the default: fills begin at offset(). The memory must outlive the fills. With a base, next(),
  /// below(), uniform() and fills of CPU tensors throw Error.
  void set_device_base(const std::uint64_t* base) { device_base_ = base; }
  const std::uint64_t* device_base() const { return device_base_; }

 private:
  std::uint64_t seed_;
  std::uint64_t offset_ = 0;
  const std::uint64_t* device_base_ = nullptr;
};

/// Seeds every thread's default generator, as described above; rand, randn, uniform_, normal_, Dropout and the
/// initialisers draw from it. Under a GeneratorGuard it seeds only the guard's generator.
ADJOINT_API void manual_seed(std::uint64_t seed);
/// This thread's default generator. The reference is valid until the seed is set again or a guard begins or ends.
ADJOINT_API Generator& default_generator();

/// While it lives, this thread's default generator is a copy of `generator`; afterwards it continues where it was.
/// Guards nest.
class ADJOINT_API GeneratorGuard {
 public:
  explicit GeneratorGuard(const Generator& generator);
  ~GeneratorGuard();
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  Generator generator_;
  Generator* outer_;
};

// Fill a floating-point tensor in place from `generator`, as Tensor::uniform_ and normal_ do from the default one.
// Throw Error for a tensor that may not be written (see Tensor), and for numbers that are not finite in its dtype.

/// Numbers of the tensor's dtype in [low, high), however coarse the dtype; low, rounded, if the dtype has no number
/// there, as for low == high. Throws Error for low above high.
ADJOINT_API void fill_uniform(Tensor& tensor, double low, double high, Generator& generator);
/// Throws Error for a negative standard deviation.
ADJOINT_API void fill_normal(Tensor& tensor, double mean, double standard_deviation, Generator& generator);

}  // namespace adjoint

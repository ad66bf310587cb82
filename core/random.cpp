#include <adjoint/core/random.h>

#include <adjoint/core/check.h>
#include <adjoint/core/philox.h>

namespace adjoint {

std::uint64_t Generator::reserve(std::uint64_t blocks) {
  const std::uint64_t first = offset_;
  offset_ += blocks;
  return first;
}

std::uint64_t Generator::next() {
  const philox::Block block = philox::generate(seed_, reserve(1));
  return std::uint64_t{block.word[0]} << 32 | block.word[1];
}

double Generator::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

std::uint64_t Generator::below(std::uint64_t bound) {
  ADJOINT_CHECK(bound > 0, "Generator::below: bound must be positive; got {}", bound);
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{next()} * bound;
  // Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019): reject the few values that would
  // bias.
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) product = Wide{next()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator() = Generator(seed); }

}  // namespace adjoint

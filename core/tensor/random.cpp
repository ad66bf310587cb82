#include <adjoint/core/tensor/random.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/philox.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace adjoint {

std::uint64_t Generator::reserve(std::uint64_t blocks) {
  const std::uint64_t first = offset_;
  offset_ += blocks;
  return first;
}

Generator Generator::fork(std::uint64_t number) const {
  Generator source(seed_);
  source.seek(std::uint64_t{1} << 63 | number);  // no stream is drawn that far
  return Generator(source.next());
}

std::uint64_t Generator::next() {
  ADJOINT_CHECK(
      device_base_ == nullptr,
      "Generator::next: the position must not lie in a device's memory; got seed {} with a device base; draw from "
      "another generator",
      seed_);
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

namespace {

// The process's seed. Threads with another `time` seed again.
struct Seed {
  std::mutex mutex;  // guards the other two
  std::uint64_t value = 0;
  std::uint64_t threads = 0;  // that have drawn since it was set, except the one that set it
  std::atomic<std::uint64_t> time{1};
};
constinit Seed process_seed;
const HeldAtFork seed_at_fork(process_seed.mutex);

struct ThreadGenerator {
  Generator generator;
  std::uint64_t time = 0;
};
constinit thread_local ThreadGenerator own;

// The thread that loads the library counts as the one that set the seed.
[[maybe_unused]] const bool loader_seeded = (manual_seed(0), true);

}  // namespace

Generator& default_generator() {
  if (detail::CallTrace* const trace = detail::CallTrace::current()) [[unlikely]]
    trace->draws();
  if (Generator* const guarded = detail::context().generator) return *guarded;
  if (own.time != process_seed.time.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(process_seed.mutex);
    own = {Generator(process_seed.value).fork(process_seed.threads++), process_seed.time};
  }
  return own.generator;
}

void manual_seed(std::uint64_t seed) {
  if (Generator* const guarded = detail::context().generator) {
    *guarded = Generator(seed);
    return;
  }
  const std::lock_guard lock(process_seed.mutex);
  process_seed.value = seed;
  process_seed.threads = 0;
  own = {Generator(seed), ++process_seed.time};
}

GeneratorGuard::GeneratorGuard(const Generator& generator)
    : generator_(generator), outer_(std::exchange(detail::context().generator, &generator_)) {}
GeneratorGuard::~GeneratorGuard() { detail::context().generator = outer_; }

}  // namespace adjoint

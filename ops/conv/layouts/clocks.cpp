// Times of copies in another order, measured on an H200 (bench/lab/LOG.md).
#include <adjoint/ops/conv/layouts/samples_last.h>
#include <adjoint/ops/conv/layouts/unshuffle.h>

#include <algorithm>

namespace adjoint::cuda {
namespace {

/// The reads and writes of a copy, at `rate` bytes a clock.
double moved_clocks(std::int64_t elements, std::int64_t element_size, double rate) {
  return static_cast<double>(2 * elements * element_size) / rate;
}

}  // namespace

double unshuffle_clocks(const Unshuffle& copy, std::int64_t element_size) {
  if (copy.planes == 0) return 0;
  // For a tile of any size, and for each plane where some share one; and for a launch.
  const double tile_clocks = copy.vector > 1 ? 1 : 2.3, start = copy.vector > 1 ? 4500 : 6000;
  const auto tiles = static_cast<double>(copy.tiles() * copy.tile_planes);
  return std::max(moved_clocks(copy.numel(), element_size, copy.vector > 1 ? 2000 : 1100), tile_clocks * tiles) + start;
}

double samples_last_clocks(const SamplesLast& copy, std::int64_t element_size) {
  if (copy.samples == 0) return 0;
  return moved_clocks(copy.numel(), element_size, 1100) + 6000;
}

}  // namespace adjoint::cuda

#include <adjoint/ops/conv/correlation/slices.h>

#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/correlation/clocks.h>

namespace adjoint::cuda {
namespace {

constexpr int kMostSlices = 64;

/// Returns true if padding slices of so many channels to whole chunks adds at most a quarter.
bool cuts(std::int64_t channels, std::int64_t slices, std::int64_t chunk_channels) {
  if (channels % slices != 0) return false;
  return 4 * slices * ceil_div(channels / slices, chunk_channels) <= 5 * ceil_div(channels, chunk_channels);
}

}  // namespace

std::int64_t slices_bytes(const CorrelationPlan& sliced) {
  return std::int64_t{4} * sliced.batch * sliced.groups * sliced.n_channels * sliced.out_h * sliced.out_w;
}

double slices_clocks(const CorrelationPlan& plan, bool split, const Machine& machine) {
  // Another launch, for which kernels that copy their input first wait less, and every partial result written and read:
  // bytes per clock, of the L2.
  const double launch = plan.blocked ? 0 : 5000;
  constexpr double kBytes = 3500;
  return correlation_clocks(plan, split, machine) + launch + 2.0 * static_cast<double>(slices_bytes(plan)) / kBytes;
}

bool plan_slices(const ConvGeometry& g, bool transposed, Arithmetic arithmetic, const CorrelationLimits& limits,
                 const Machine& machine, CorrelationPlan& plan) {
  const std::int64_t channels = transposed ? g.feature_channels_per_group() : g.image_channels_per_group();
  LeastClocks least;
  for (int slices = 2; slices <= kMostSlices; ++slices) {
    if (!cuts(channels, slices, std::int64_t{kChunkUnits} * unit_elements(arithmetic))) continue;
    ConvGeometry sliced = g;
    sliced.groups *= slices;
    (transposed ? sliced.image_channels : sliced.feature_channels) *= slices;
    CorrelationPlan candidate;
    const PlansAbove all(PlansAbove::kNone);  // each number of slices has its best tile
    if (!plan_correlation(sliced, transposed, arithmetic, limits, machine, candidate)) continue;
    candidate.slices = slices;
    if (least.take(slices_clocks(candidate, is_split(arithmetic), machine))) plan = candidate;
    if (!has_few_tiles(candidate)) break;  // more slices only cost more additions
  }
  return least.found();
}

bool has_few_tiles(const CorrelationPlan& whole) {
  return whole.tiles() < std::int64_t{kMultiprocessors} * whole.blocks_per_sm;
}

}  // namespace adjoint::cuda

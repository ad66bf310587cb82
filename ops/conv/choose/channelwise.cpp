// Clocks of a result by the kernels for few channels, and by those of tensor cores: two small formulas.
#include <adjoint/ops/conv/choose/channelwise.h>

#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>

namespace adjoint::cuda {
namespace {

double products_of_result(const ChannelwisePlan& plan) {
  return static_cast<double>(plan.taps) / (plan.h.phases * plan.w.phases) * plan.source_channels;
}

/// Clocks of a multiprocessor for 32 results, memory left out; issue slots are seven tenths full.
double channelwise_clocks(const ChannelwisePlan& plan) {
  constexpr double kSlots = 4 * 0.7, kSlotsOfResult = 15;
  const bool one_by_one = plan.taps_h == 0 && plan.channel_block == 1;
  return (products_of_result(plan) * (one_by_one ? 2.8 : 1.4) + kSlotsOfResult) / kSlots;
}

/// Units that the tensor-core kernels multiply for a result, where every tap's channels are padded to whole chunks.
std::int64_t tensor_core_units(const ChannelwisePlan& plan, int unit_channels) {
  const std::int64_t channel_units = ceil_div(plan.source_channels, unit_channels);
  const std::int64_t taps = plan.h.transposed != 0 ? std::int64_t{plan.h.most_taps} * plan.w.most_taps  // at least
                                                   : std::int64_t{plan.taps};
  return taps * ceil_div(channel_units, kChunkUnits) * kChunkUnits;
}

/// Clocks of a multiprocessor in which the correlation kernels multiply 64 positions and eight units of K by few
/// columns (results of a position, padded to sixteen): columns / 2, or what reading the positions takes; measured times
/// on such shapes are two and a half times that.
double step_clocks(std::int64_t results, bool split) {
  const double columns = static_cast<double>((results + 15) / 16 * 16);
  return 2.5 * (split ? 2.5 : 1) * std::max(columns / 2, 16 + columns / 4);
}

/// The same of the tensor-core kernels; storing results takes what it takes.
double tensor_core_clocks(const ChannelwisePlan& plan, Arithmetic arithmetic) {
  constexpr double kStoreClocks = 8;
  const std::int64_t results = plan.channels * std::int64_t{plan.h.phases} * plan.w.phases;
  const auto units = static_cast<double>(tensor_core_units(plan, unit_elements(arithmetic)));
  const double clocks = step_clocks(results, is_split(arithmetic)) * units / 8;
  return std::max(clocks / 2 / static_cast<double>(results), kStoreClocks);
}

}  // namespace

bool channelwise_pays(const ChannelwisePlan& plan, Arithmetic arithmetic) {
  if (plan.source_channels > kChannelwiseMaxSourceChannels) return false;
  return std::int64_t{plan.channels} * plan.source_channels <= kChannelwiseFewPairs ||
         channelwise_clocks(plan) <= tensor_core_clocks(plan, arithmetic);
}

}  // namespace adjoint::cuda

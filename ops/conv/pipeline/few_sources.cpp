// Plans conv of channels_last sources of a few channels.
#include <adjoint/ops/conv/pipeline/few_sources.h>

#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/pipeline/parts.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace adjoint::cuda {

bool plan_few_sources(const ConvGeometry& g, bool transposed, bool filter_is_channels_last, Arithmetic arithmetic,
                      FewSourcesPlan& plan) {
  if (g.groups != 1 || is_split(arithmetic)) return false;
  if (transposed && (g.stride.h != 1 || g.stride.w != 1)) return false;
  const auto &source = transposed ? g.feature : g.image, &result = transposed ? g.image : g.feature;
  const std::int64_t channels = transposed ? g.feature_channels : g.image_channels,
                     results = transposed ? g.image_channels : g.feature_channels;
  const std::int64_t summed = g.taps() * channels, depth = FewSourcesPlan::depth(element_bytes(arithmetic));
  const std::int64_t steps = ceil_div(summed, depth), positions = g.batch * result.h * result.w;
  constexpr std::int64_t kMost = std::numeric_limits<std::int16_t>::max() / 2;
  if (steps > kMostFewSourcesSteps || positions < 1 || positions > kMostExtent || results > kMostExtent ||
      source.h > kMost || source.w > kMost || g.filter_numel() > kMostExtent ||
      g.batch * source.h * source.w * channels > kMostExtent) {
    return false;
  }
  plan = {};
  plan.positions = static_cast<std::int32_t>(positions);
  plan.channels = static_cast<std::int32_t>(channels);
  plan.results = static_cast<std::int32_t>(results);
  plan.height = static_cast<std::int32_t>(source.h);
  plan.width = static_cast<std::int32_t>(source.w);
  plan.summed = static_cast<std::int32_t>(summed);
  plan.steps = static_cast<std::int32_t>(steps);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    // conv_transpose reads backwards.
    const std::int64_t way = transposed ? -1 : 1, reach = g.dilation.in_plane(axis) * (g.kernel.in_plane(axis) - 1);
    if (std::max(reach, g.padding.in_plane(axis)) > kMost || g.stride.in_plane(axis) > kMost) return false;
    plan.stride[axis] = static_cast<std::int32_t>(g.stride.in_plane(axis));
    plan.first[axis] = static_cast<std::int32_t>(-way * g.padding.in_plane(axis));
    plan.between[axis] = static_cast<std::int32_t>(way * g.dilation.in_plane(axis));
  }
  const std::int64_t inner = filter_is_channels_last ? 1 : g.taps();
  plan.tap_step = filter_is_channels_last ? g.image_channels : 1;
  plan.result_step = transposed ? inner : g.image_channels * g.taps();
  plan.channel_step = transposed ? g.image_channels * g.taps() : inner;
  plan.result_height = Divider(static_cast<std::uint32_t>(result.h));
  plan.result_width = Divider(static_cast<std::uint32_t>(result.w));
  plan.kernel_width = Divider(static_cast<std::uint32_t>(g.kernel.w));
  return true;
}

double few_sources_clocks(const FewSourcesPlan& plan, Arithmetic arithmetic, const Machine& machine) {
  // Measured: clocks of a step and a tile of a warp on a multiprocessor, of a block's beginning, and of a step's
  // filter.
  constexpr double kOfStep = 110, kOfTile = 400, kStart = 4000, kOfFilter = 600;
  constexpr double kWrittenBytes = 1700;  // of all multiprocessors, written
  const double bytes = element_bytes(arithmetic), tile = plan.steps * kOfStep + kOfTile;
  // Warps compute whole tiles: two blocks on each multiprocessor.
  const double warps = 2.0 * kFewSourcesWarps * machine.multiprocessors;
  const double tiles = std::ceil(static_cast<double>(plan.tiles()) * plan.result_blocks() / warps) * warps;
  const double written = static_cast<double>(plan.positions) * plan.results * bytes;
  return kStart + plan.steps * kOfFilter + std::max(tiles * tile / machine.multiprocessors, written / kWrittenBytes);
}

}  // namespace adjoint::cuda

// Cuts conv and conv_transpose with few results a position, and conv_weight with few channels of one operand.
#include <adjoint/ops/conv/base/counted.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/few_results/plan.h>

#include <algorithm>
#include <cstddef>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMostSlices = 64;

// The model counts microseconds of an H200, and was fitted to measured times; its result is converted to clocks.
constexpr double kGatherMicroseconds = 8, kWeightMicroseconds = 5.5,
                 kAddMicroseconds = 2;  // launches that are nearly empty
constexpr double kValues = 0.35e6;      // values of the operand with many channels that are read in a microsecond
// Clocks of a multiprocessor. For a warp's product: the source's part, and that of each channel. For a warp's step of
// conv_weight: the start, then each value, tap and product.
constexpr double kSourceClocks = 2.6, kChannelClocks = 2.4;
constexpr double kStepClocks = 16, kFeatureClocks = 1.2, kTapClocks = 4, kImageClocks = 2.5, kProductClocks = 0.4;

std::int32_t to_int(std::int64_t value) { return static_cast<std::int32_t>(value); }
Divider divider(std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); }

FewResultsAxis gather_axis(const ConvGeometry& g, std::size_t axis, bool transposed) {
  FewResultsAxis a{};
  const std::int64_t kernel = g.kernel.in_plane(axis), stride = g.stride.in_plane(axis),
                     padding = g.padding.in_plane(axis), dilation = g.dilation.in_plane(axis);
  a.result = to_int(transposed ? g.image.in_plane(axis) : g.feature.in_plane(axis));
  a.source = to_int(transposed ? g.feature.in_plane(axis) : g.image.in_plane(axis));
  if (!transposed) {
    a.residues = a.tap_step = 1;
    a.positions = a.result;
    a.period_source = to_int(stride);
    a.source_step = to_int(dilation);
    a.run[0] = {to_int(kernel), 0, to_int(-padding)};
    return a;
  }
  a.residues = to_int(stride);
  a.positions = to_int(ceil_div(a.result, stride));
  a.period_source = 1;
  for (std::int64_t residue = 0; residue < stride; ++residue) {
    const PhaseTaps taps = phase_taps((residue + padding) % stride, kernel, stride, dilation);
    a.tap_step = to_int(taps.tap_step);
    a.source_step = to_int(-taps.offset_step);
    a.run[residue] = {to_int(taps.taps), to_int(taps.first_tap),
                      to_int((residue + padding) / stride - taps.first_offset)};
  }
  return a;
}

/// The largest power of two that is at most `most` and not above `value`; at least 1.
std::int32_t power_of_two(std::int64_t value, std::int32_t most) {
  std::int32_t power = 1;
  while (2 * power <= std::min<std::int64_t>(value, most)) power *= 2;
  return power;
}

/// Positions that lanes read side by side should be in one plane: sectors would otherwise hold unused values; a block's
/// other threads share the channels. Slices beyond those that fill the machine only cost additions.
void cut_channels(const Machine& machine, FewResultsPlan& p) {
  constexpr std::int32_t kMostLanes = 64;
  constexpr std::int64_t kLeastChannels = 2, kChannelsAtOnce = 4;  // of a thread
  p.lanes = power_of_two(std::int64_t{p.h.positions} * p.w.positions, kMostLanes);
  p.channel_lanes =
      std::max(power_of_two(2 * std::int64_t{p.source_channels} - 1, kFewThreads / p.lanes), std::max(1, 32 / p.lanes));
  p.tiles = to_int(ceil_div(p.total, p.lanes));
  const std::int64_t wanted = ceil_div(std::int64_t{2} * machine.multiprocessors, std::int64_t{p.tiles} * p.groups);
  const std::int64_t most = std::min(kMostSlices, p.source_channels / (kLeastChannels * p.channel_lanes));
  const std::int64_t slices = std::max<std::int64_t>(1, std::min(wanted, most));
  const std::int64_t most_of_lane = ceil_div(p.source_channels, slices * p.channel_lanes);
  const std::int64_t unit = p.channel_lanes * (slices > 1 && most_of_lane > 2 ? kChannelsAtOnce : 1);
  p.slice_channels = to_int(ceil_div(ceil_div(p.source_channels, slices), unit) * unit);
  p.slices = to_int(ceil_div(p.source_channels, p.slice_channels));
}

}  // namespace

bool plan_few_results(const ConvGeometry& g, bool transposed, const Machine& machine, FewResultsPlan& p) {
  p = {};
  const std::int64_t channels = transposed ? g.image_channels_per_group() : g.feature_channels_per_group();
  if (channels > kFewResults || !is_counted(g)) return false;
  if (transposed && std::max(g.stride.h, g.stride.w) > kFewMaxStride) return false;
  p.h = gather_axis(g, 0, transposed);
  p.w = gather_axis(g, 1, transposed);
  p.batch = to_int(g.batch);
  p.groups = to_int(g.groups);
  p.channels = to_int(channels);
  p.source_channels = to_int(transposed ? g.feature_channels_per_group() : g.image_channels_per_group());
  p.kernel_w = to_int(g.kernel.w);
  const std::int64_t feature_filter = g.image_channels_per_group() * g.taps();
  p.filter_channel = to_int(transposed ? g.taps() : feature_filter);
  p.filter_source = to_int(transposed ? feature_filter : g.taps());
  p.filter_group = to_int(g.feature_channels_per_group() * feature_filter);
  const std::int64_t residue = g.batch * p.h.positions * p.w.positions;
  const std::int64_t total = residue * p.h.residues * p.w.residues;
  if (total >= std::int64_t{1} << 30) return false;
  p.total = to_int(total);
  p.row_divider = divider(p.w.positions);
  p.plane_divider = divider(p.h.positions);
  p.batch_divider = divider(p.batch);
  p.residue_divider = divider(p.w.residues);
  cut_channels(machine, p);
  return p.blocks() < std::int64_t{1} << 30;
}

double few_results_clocks(const FewResultsPlan& p, const Machine& machine) {
  const double values = static_cast<double>(p.batch) * p.groups * p.source_channels * p.h.source * p.w.source;
  const double taps = static_cast<double>(p.filter_group) / (p.channels * static_cast<double>(p.source_channels)) /
                      (p.h.residues * p.w.residues);
  const double products = static_cast<double>(p.total) * p.groups * p.source_channels * taps / 32;
  const int channels = p.channels == 3 ? 4 : p.channels;
  const double compute =
      products * (kSourceClocks + kChannelClocks * channels) / (machine.multiprocessors * kClocksPerMicrosecond);
  return kClocksPerMicrosecond *
         (kGatherMicroseconds + (p.slices > 1 ? kAddMicroseconds : 0) + std::max(compute, values / kValues));
}

bool plan_few_weight(const ConvGeometry& g, const Machine& machine, FewWeightPlan& p) {
  p = {};
  const std::int64_t images = g.image_channels_per_group(), features = g.feature_channels_per_group();
  const std::int64_t few = std::min(images, features);
  if (few > kFewResults || !is_counted(g)) return false;
  p.image = g.image.plane();
  p.feature = g.feature.plane();
  for (std::size_t axis = 0; axis < 2; ++axis) {
    p.stride[axis] = to_int(g.stride.in_plane(axis));
    p.padding[axis] = to_int(g.padding.in_plane(axis));
    p.dilation[axis] = to_int(g.dilation.in_plane(axis));
  }
  p.batch = to_int(g.batch);
  p.groups = to_int(g.groups);
  p.image_channels = to_int(images);
  p.feature_channels = to_int(features);
  p.kernel_w = to_int(g.kernel.w);
  p.taps = to_int(g.taps());
  const std::int32_t tile = few > 2 ? 4 : to_int(few);
  p.tile_image = images <= features ? tile : 4 / tile;
  p.tile_feature = 4 / p.tile_image;
  p.tile_taps = p.taps == 1 ? 1 : kFewTaps;
  p.image_tiles = to_int(ceil_div(images, p.tile_image));
  p.feature_tiles = to_int(ceil_div(features, p.tile_feature));
  p.tap_tiles = to_int(ceil_div(p.taps, p.tile_taps));
  p.total = to_int(g.batch * g.feature_plane());
  constexpr std::int64_t kLeastPositions = 128;  // of a slice
  const std::int64_t most = std::min(kMostSlices, std::max<std::int64_t>(1, p.total / kLeastPositions));
  const std::int64_t slices = std::min(ceil_div(std::int64_t{32} * machine.multiprocessors, p.tiles()), most);
  p.slice_positions = to_int(ceil_div(ceil_div(p.total, slices), 32) * 32);
  p.slices = to_int(ceil_div(p.total, p.slice_positions));
  p.row_divider = divider(g.feature.w);
  p.plane_divider = divider(g.feature.h);
  return std::int64_t{p.tiles()} * p.slices < std::int64_t{1} << 30;
}

namespace {

/// Values of the operand with many channels at the feature's positions.
double many_values(const FewWeightPlan& p) {
  return static_cast<double>(p.total) * p.groups * std::max(p.image_channels, p.feature_channels);
}

}  // namespace

double few_weight_clocks(const FewWeightPlan& p, Arithmetic arithmetic, const Machine& machine) {
  const double steps = static_cast<double>(p.tiles()) * static_cast<double>(ceil_div(p.total, 32));
  const double tap = kTapClocks + p.tile_image * (kImageClocks + kProductClocks * p.tile_feature);
  const double step = kStepClocks + kFeatureClocks * p.tile_feature + p.tile_taps * tap;
  const double bytes = static_cast<double>(element_bytes(arithmetic)) * p.batch * p.groups *
                       (static_cast<double>(p.image_channels) * p.image[0] * p.image[1] +
                        static_cast<double>(p.feature_channels) * p.feature[0] * p.feature[1]);
  const double memory = std::max(bytes / kBytesPerMicrosecond, many_values(p) / kValues);
  const double work = std::max(steps * step / (machine.multiprocessors * kClocksPerMicrosecond), memory);
  return kClocksPerMicrosecond * (kWeightMicroseconds + (p.slices > 1 ? kAddMicroseconds : 0) + work);
}

}  // namespace adjoint::cuda

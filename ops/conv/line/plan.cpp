// Chooses the grid of positions and the tiles of the kernels that treat a convolution as one line.
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/line/plan.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
constexpr std::int64_t kMaxLine = std::int64_t{1} << 30;
constexpr std::int64_t kMostColumnTiles = 64;

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

bool takes_extents(const ConvGeometry& g, bool transposed) {
  if (g.batch == 0) return false;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (g.image.in_plane(axis) >= kMaxExtent || g.feature.in_plane(axis) >= kMaxExtent ||
        g.padding.in_plane(axis) >= kMaxExtent)
      return false;
    if (g.kernel.in_plane(axis) * g.dilation.in_plane(axis) >= kMaxExtent) return false;
    if (transposed ? g.stride.in_plane(axis) > kLineMaxPhases : g.stride.in_plane(axis) != 1) return false;
  }
  return true;
}

bool conv_axis(const ConvGeometry& g, std::size_t axis, LineAxis& a) {
  if (g.kernel.in_plane(axis) > kLineMaxOffsets) return false;
  a = {.result = narrow(g.feature.in_plane(axis)), .source = narrow(g.image.in_plane(axis)), .phases = 1, .shift = 0};
  a.positions = a.result;
  a.offsets = narrow(g.kernel.in_plane(axis));
  for (std::int32_t k = 0; k < a.offsets; ++k) {
    a.offset[k] = narrow(k * g.dilation.in_plane(axis) - g.padding.in_plane(axis));
    a.tap[0][k] = static_cast<std::int16_t>(k);
  }
  return true;
}

/// Result position i = q * stride + phase - shift uses tap k at source position (i + padding - k * dilation) / stride,
/// if that is an integer. False if there are too many offsets from q.
bool shifted_axis(const ConvGeometry& g, std::size_t axis, std::int64_t shift, LineAxis& a) {
  const std::int64_t stride = g.stride.in_plane(axis);
  a = {.result = narrow(g.image.in_plane(axis)), .source = narrow(g.feature.in_plane(axis)), .phases = narrow(stride)};
  a.shift = narrow(shift);
  a.positions = narrow((g.image.in_plane(axis) - 1 + shift) / stride + 1);
  std::set<std::int64_t> offsets;
  const auto visit = [&](auto&& f) {
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      for (std::int64_t k = 0; k < g.kernel.in_plane(axis); ++k) {
        const std::int64_t distance = phase - shift + g.padding.in_plane(axis) - k * g.dilation.in_plane(axis);
        if (distance % stride == 0) f(phase, k, distance / stride);
      }
    }
  };
  if (g.kernel.in_plane(axis) > kLineMaxOffsets * stride) return false;
  visit([&](std::int64_t, std::int64_t, std::int64_t offset) { offsets.insert(offset); });
  if (offsets.size() > kLineMaxOffsets) return false;
  a.offsets = narrow(static_cast<std::int64_t>(offsets.size()));
  std::copy(offsets.begin(), offsets.end(), a.offset);
  for (auto& taps : a.tap) std::fill(std::begin(taps), std::end(taps), std::int16_t{-1});
  visit([&](std::int64_t phase, std::int64_t k, std::int64_t offset) {
    const auto at = std::lower_bound(a.offset, a.offset + a.offsets, narrow(offset)) - a.offset;
    a.tap[phase][at] = static_cast<std::int16_t>(k);
  });
  return true;
}

/// The grid with the fewest products: without a shift it may need one more offset than the taps reach, with a shift one
/// more position than there are results.
bool transposed_axis(const ConvGeometry& g, std::size_t axis, LineAxis& best) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t shift = 0; shift < g.stride.in_plane(axis); ++shift) {
    LineAxis a;
    if (!shifted_axis(g, axis, shift, a)) continue;
    const std::int64_t products = std::int64_t{a.positions} * a.offsets;
    if (products >= least) continue;
    least = products;
    best = a;
  }
  return least != std::numeric_limits<std::int64_t>::max();
}

/// Computed positions for each wanted one, times the relative cost of copying the stage.
double tile_cost(const LinePlan& p) {
  constexpr double kCopyCost = 0.1;
  const double computed = static_cast<double>(p.pitch) * p.column_tiles / p.w.positions;
  return computed * (1 + kCopyCost * p.length / p.tile_positions);
}

bool place_columns(LinePlan& p, std::int64_t column_tiles, std::int64_t most_length) {
  const std::int64_t positions = p.w.positions;
  p.tile_columns =
      narrow(column_tiles == 1 ? positions : ceil_div(ceil_div(positions, column_tiles), p.vector) * p.vector);
  p.column_tiles = narrow(ceil_div(positions, p.tile_columns));
  p.first_column = narrow(floor_to(p.w.offset[0], p.vector));
  const std::int64_t reach = p.w.offset[p.w.offsets - 1] - p.first_column;
  const std::int64_t pitch = ceil_div(p.tile_columns + reach, p.vector) * p.vector;
  const std::int64_t plane = (std::int64_t{p.h.positions} + p.h.span()) * pitch;
  const std::int64_t length = p.tile_positions + p.h.span() * pitch + ceil_div(reach + 1, p.vector) * p.vector;
  if (plane * p.batch + length + p.tile_positions > kMaxLine || length > most_length) return false;
  p.pitch = narrow(pitch);
  p.plane = narrow(plane);
  p.length = narrow(length);
  p.line_tiles = narrow(ceil_div(plane * p.batch, p.tile_positions));
  return true;
}

}  // namespace

bool plan_line(const ConvGeometry& g, bool transposed, std::int64_t element_bytes, LinePlan& p) {
  if (!takes_extents(g, transposed)) return false;
  const auto axis = transposed ? transposed_axis : conv_axis;
  if (!axis(g, 0, p.h) || !axis(g, 1, p.w)) return false;
  const std::int64_t image = g.image_channels_per_group(), feature = g.feature_channels_per_group();
  const std::int64_t channels = transposed ? image : feature, source = transposed ? feature : image;
  if (channels > kMaxExtent / (kLineMaxPhases * kLineMaxPhases) || source > kMaxExtent) return false;
  p.groups = narrow(g.groups);
  p.channels = narrow(channels);
  p.source_channels = narrow(source);
  p.kernel_w = narrow(g.kernel.w);
  p.filter_channel = transposed ? g.taps() : image * g.taps();
  p.filter_source = transposed ? image * g.taps() : g.taps();
  p.filter_group = image * feature * g.taps();
  p.batch = g.batch;
  p.vector = narrow(16 / element_bytes);
  return p.filter_group < kMaxLine;
}

bool unshift_columns(const ConvGeometry& g, LinePlan& p) { return p.w.shift == 0 || shifted_axis(g, 1, 0, p.w); }

bool place_line(std::int64_t most_length, LinePlan& p) {
  double least = std::numeric_limits<double>::infinity();
  LinePlan best = p;
  for (std::int64_t tiles = 1; tiles <= std::min<std::int64_t>(kMostColumnTiles, p.w.positions); ++tiles) {
    LinePlan tried = p;
    if (!place_columns(tried, tiles, most_length) || tile_cost(tried) >= least) continue;
    least = tile_cost(tried);
    best = tried;
  }
  p = best;
  if (std::isinf(least)) return false;
  p.plane_divider = Divider(static_cast<std::uint32_t>(p.plane));
  p.pitch_divider = Divider(static_cast<std::uint32_t>(p.pitch));
  p.phase_divider = Divider(static_cast<std::uint32_t>(p.w.phases));
  // Places in the samples of one tile are 32-bit.
  const std::int64_t sample = std::int64_t{p.source_channels} * p.groups * p.h.source * p.w.source;
  return sample < kMaxLine && sample * (p.length / p.plane + 2) < 2 * kMaxLine && p.blocks() < 2 * kMaxLine;
}

double line_block_clocks(const LinePlan& p, double clocks, const Machine& machine) {
  // In waves of blocks.
  constexpr double kResident = 2;  // on a multiprocessor, which works on them in turn
  return std::ceil(static_cast<double>(p.blocks()) / (kResident * machine.multiprocessors)) * kResident * clocks;
}

}  // namespace adjoint::cuda

#include <adjoint/ops/conv/weight/blocks_plan.h>

#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr std::int32_t kChunkChannels = 8 * kChunkBlocks;
constexpr std::int64_t kMostBlockExtent = std::int64_t{1} << 28;

ChannelBlocks copy_of(const ConvGeometry& g, std::int64_t channels, const Extents& extents, const Extents& stride) {
  const auto number = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  return {.images = g.batch,
          .groups = 1,
          .channels = number(channels),
          .chunks = number(ceil_div(channels, std::int64_t{kChunkChannels})),
          .chunk_blocks = kChunkBlocks,
          .h = number(extents.h),
          .w = number(extents.w),
          .stride_h = number(stride.h),
          .stride_w = number(stride.w),
          .flat_h = flat_extent(g, false, 0),
          .flat_w = flat_extent(g, false, 1)};
}

/// Orders taps by their planes and places, and groups neighbouring taps into shared boxes.
void place_taps(const ConvGeometry& g, BlockedWeightPlan& p) {
  struct Place {
    std::int32_t block, at, tap;
  };
  Place places[kMostBlockedTaps];
  for (std::int32_t tap = 0; tap < p.taps; ++tap) {
    std::int64_t offset[2], residue[2];
    for (const std::size_t axis : {0U, 1U}) {
      const std::int64_t index = axis == 0 ? tap / g.kernel.w : tap % g.kernel.w;
      const std::int64_t distance = index * g.dilation.in_plane(axis) - g.padding.in_plane(axis);
      const std::int64_t block = floor_to(distance, g.stride.in_plane(axis));
      offset[axis] = block / g.stride.in_plane(axis);
      residue[axis] = distance - block;
    }
    const std::int32_t block =
        p.image.block(0, static_cast<std::int32_t>(residue[0]), static_cast<std::int32_t>(residue[1]), 0);
    places[tap] = {block, static_cast<std::int32_t>(offset[0] * p.image.flat_w + offset[1]), tap};
  }
  std::sort(places, places + p.taps,
            [](const Place& a, const Place& b) { return a.block != b.block ? a.block < b.block : a.at < b.at; });
  std::int32_t box = -1;
  p.image_positions = kWeightStage;
  for (std::int32_t i = 0; i < p.taps; ++i) {
    const Place& place = places[i];
    const bool shares =
        box >= 0 && p.box_list[box].block == place.block && place.at - p.box_list[box].first <= kWeightHalo;
    if (!shares) p.box_list[++box] = {place.at, place.block};
    const std::int32_t shift = place.at - p.box_list[box].first;
    p.tap_list[i] = {static_cast<std::int16_t>(place.tap), static_cast<std::int16_t>(box),
                     static_cast<std::int16_t>(shift)};
    p.image_positions = std::max(p.image_positions, kWeightStage + shift);
  }
}

/// Cuts rows and columns into tiles; the operand that needs less padding provides the rows, if stages overlap.
void choose_rows(BlockedWeightPlan& p) {
  const auto tiles = [&](bool rows_are_image) {
    p.rows_are_image = rows_are_image;
    p.units = ceil_div(p.rows().channels, kWeightUnitRows) * p.taps;
    p.row_tiles = ceil_div(p.units, kWeightTileUnits);
    p.column_tiles = ceil_div(p.columns().channels, kWeightTileColumns);
    p.tap_divider = Divider(static_cast<std::uint32_t>(p.taps));
    p.row_divider = Divider(static_cast<std::uint32_t>(p.row_tiles));
    p.column_divider = Divider(static_cast<std::uint32_t>(p.column_tiles));
    p.row_boxes = p.column_boxes = 1;
    for (std::int32_t unit = 0; unit < std::min(p.units, kWeightTileUnits * p.taps); ++unit) {  // then they repeat
      const BlockedWeightTile tile{.unit = unit / kWeightTileUnits * kWeightTileUnits};
      const BlockedWeightBoxes boxes = blocked_weight_boxes(p, tile, unit);
      p.row_boxes = std::max(p.row_boxes, boxes.row + 1);
      p.column_boxes = std::max(p.column_boxes, boxes.column + 1);
    }
    constexpr std::int32_t kMostBytes = 227 << 10;
    p.slots = std::min((kMostBytes - kWeightBarrierBytes) / p.slot_bytes(), kMostWeightSlots);
    return std::int64_t{p.row_tiles} * p.column_tiles;
  };
  constexpr std::int32_t kFewestSlots = 3;
  const std::int64_t of_feature = tiles(false);
  const bool overlaps = p.slots >= kFewestSlots;
  if (tiles(true) > of_feature && overlaps) tiles(false);
}

/// The time of a tile's stage: the products of both warpgroups, or the L2's delivery of it.
double stage_clocks(const BlockedWeightPlan& p, const Machine& machine) {
  constexpr double kProducts = 1024, kOverhead = 1.1;
  return kOverhead * std::max(kProducts, p.slot_bytes() / machine.l2_bytes);
}

/// The time of all tiles, and of the kernel that adds their slices up and puts taps last.
double clocks_of_slices(const BlockedWeightPlan& p, const Machine& machine) {
  // To begin and to store a tile; launches of the kernels that read the sums; for a slice, as in product/taps.cpp.
  constexpr double kTile = 6000, kLaunch = 4000, kSlice = 800;
  const double waves = std::ceil(static_cast<double>(p.tiles()) / machine.multiprocessors);
  const double sums = static_cast<double>(p.sums_bytes()), results = sums / p.slices / 2;
  return waves * (p.slice_stages * stage_clocks(p, machine) + kTile) + (2 * sums + results) / machine.moved_bytes +
         kLaunch + kSlice * p.slices;
}

/// Chooses the number of slices with which the sums are done soonest. Tensor cores round towards zero, so long sums are
/// kept short: sums of more than kMostStages are always sliced if the slices' sums need little memory. False if all
/// choices are passed over (PlansAbove).
bool cut_slices(const Machine& machine, BlockedWeightPlan& p) {
  constexpr std::int32_t kFewestStages = 4, kMostStages = 512, kMostSlices = 64;
  constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  p.slices = 1;
  const std::int64_t affordable = std::max<std::int64_t>(kMostBytes / p.sums_bytes(), 1);
  const auto least = static_cast<std::int32_t>(std::min(ceil_div(p.stages, std::int64_t{kMostStages}), affordable));
  LeastClocks fewest;
  std::int32_t chosen = least;
  for (std::int32_t slices = least; slices <= std::max(kMostSlices, 2 * least); ++slices) {
    p.slice_stages = static_cast<std::int32_t>(ceil_div(p.stages, slices));
    if (slices > least && p.slice_stages < kFewestStages) break;
    if (ceil_div(p.stages, p.slice_stages) != slices) continue;
    p.slices = slices;
    if (fewest.take(clocks_of_slices(p, machine))) chosen = slices;
  }
  p.slice_stages = static_cast<std::int32_t>(ceil_div(p.stages, chosen));
  p.slices = static_cast<std::int32_t>(ceil_div(p.stages, p.slice_stages));
  return fewest.found() || PlansAbove::clocks() < 0;
}

}  // namespace

bool plan_blocked_weight(const ConvGeometry& g, const Machine& machine, BlockedWeightPlan& p) {
  p = {};
  if (g.groups != 1 || g.taps() > kMostBlockedTaps || g.filter_numel() == 0 || g.batch == 0 || is_pointwise(g))
    return false;
  if (g.image_numel() == 0 || g.feature_numel() == 0) return false;
  for (const std::size_t axis : {0U, 1U}) {
    if (std::max({g.image.in_plane(axis), g.feature.in_plane(axis), g.padding.in_plane(axis),
                  g.dilation.in_plane(axis) * g.kernel.in_plane(axis)}) >= kMostBlockExtent)
      return false;
    if (g.stride.in_plane(axis) > kMostBlockExtent) return false;
  }
  if (std::max({g.image_channels, g.feature_channels, g.batch, g.stride.h * g.stride.w}) >= kMostBlockExtent)
    return false;
  p.taps = static_cast<std::int32_t>(g.taps());
  p.image = copy_of(g, g.image_channels, g.image, g.stride);
  p.feature = copy_of(g, g.feature_channels, g.feature, {1, 1});
  if (!p.image.fits() || !p.feature.fits()) return false;
  place_taps(g, p);
  choose_rows(p);
  p.stages = static_cast<std::int32_t>(ceil_div(p.image.block_step(), std::int64_t{kWeightStage}));
  p.gather = tap_gather(g.feature_channels * g.image_channels, p.taps, 2, true);
  if (!cut_slices(machine, p)) return false;
  if (std::int64_t{p.row_tiles} * p.column_tiles * p.slices > std::numeric_limits<std::int32_t>::max()) return false;
  p.gather.slices = p.slices;
  p.gather.slice_stride = p.gather.count;
  p.gather.tap_stride = p.gather.count * p.slices;
  return true;
}

double blocked_weight_clocks(const BlockedWeightPlan& p, const Machine& machine) {
  return clocks_of_slices(p, machine);
}

}  // namespace adjoint::cuda

// Chooses tiles and slots of the kernel for few results a position and several taps.
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/line/packed/plan.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxSmemBytes = 227 * 1024;  // of a block of sm_90
constexpr std::int32_t kMostSlotVectors = 8 * 1024 / 16;
constexpr std::int32_t kUnit = 8;  // of rows, for the copy engine's alignment, and of tiles, for memory's
constexpr std::int32_t kLeastRawStages = 1;
constexpr std::int64_t kMostTiles = std::int64_t{1} << 30;

/// The distance between neighbouring offsets of an axis; -1 if it varies.
std::int32_t offset_step(const LineAxis& a) {
  const std::int32_t step = a.offsets > 1 ? a.offset[1] - a.offset[0] : 0;
  for (std::int32_t i = 2; i < a.offsets; ++i) {
    if (a.offset[i] - a.offset[i - 1] != step) return -1;
  }
  return step;
}

/// Puts `stack` offsets of a row into one product; one of them may be padding. False if they have more results than a
/// product.
bool stack_offsets(PackedPlan& p, std::int32_t stack) {
  const std::int32_t offsets = p.w.offsets, filled = static_cast<std::int32_t>(ceil_div(offsets, stack)) * stack;
  if (filled > offsets + 1 || filled > kLineMaxOffsets) return false;
  if (p.group_results() * stack > kPackedResults) return false;
  p.stack = stack;
  p.step_w = stack * p.stack_step;
  p.paired = stack == 2 && p.stack_step == 1;
  for (; p.w.offsets < filled; ++p.w.offsets) {
    p.w.offset[p.w.offsets] = p.w.offset[p.w.offsets - 1] + p.stack_step;
    for (auto& taps : p.w.tap) taps[p.w.offsets] = -1;
  }
  return true;
}

/// Puts whole rows of offsets into a slot if `most` products hold them, otherwise parts of one row.
void choose_slots(PackedPlan& p, std::int32_t most) {
  most = std::max(most, 1);
  const std::int32_t columns = std::min(p.row_products(), p.parts > 1 ? std::min(most, kPackedSplitProducts) : most);
  p.slot_columns = static_cast<std::int32_t>(ceil_div(p.row_products(), ceil_div(p.row_products(), columns)));
  p.slot_rows = 1;
  if (p.slot_columns == p.row_products()) {
    const std::int64_t slots = ceil_div(p.h.offsets, std::max(1, most / p.slot_columns));
    p.slot_rows = static_cast<std::int32_t>(ceil_div(p.h.offsets, slots));
  }
}

/// If all of a block's tiles share a filter, it stays in shared memory if it fits.
bool choose_filter(PackedPlan& p) {
  if (p.groups == 1) {
    choose_slots(p, p.products());
    p.filter_slots = p.stages() * p.stage_slots();
    p.filter_stays = p.filter_slots <= kMostFilterSlots && p.smem_bytes() <= kMaxSmemBytes;
    if (p.filter_stays) return true;
  }
  choose_slots(p, kMostSlotVectors / p.product_vectors());
  p.filter_stays = false;
  p.filter_slots = kPackedFilterSlots;
  return p.smem_bytes() <= kMaxSmemBytes;
}

/// Tiles whose rows span at most `most_pitch` elements of the line. False if such tiles hold no position, or do not fit
/// into shared memory.
bool place_columns(PackedPlan& p, std::int32_t most_pitch) {
  const auto to_unit = [](std::int64_t a) { return static_cast<std::int32_t>(ceil_div(a, kUnit) * kUnit); };
  // The copy engine requires starts at multiples of 16 bytes.
  p.first_column = static_cast<std::int32_t>(floor_to(p.w.offset[0], p.vector));
  const std::int32_t reach = p.w.offset[p.w.offsets - 1] - p.first_column;
  const std::int32_t positions = p.w.positions, most = most_pitch - reach;
  if (most <= 0 || (most < kUnit && most < positions)) return false;
  p.tile_columns = positions;
  if (positions > most) {
    const std::int64_t tiles = ceil_div(positions, most / kUnit * kUnit);
    p.tile_columns = to_unit(ceil_div(positions, tiles));
  }
  p.column_tiles = static_cast<std::int32_t>(ceil_div(positions, p.tile_columns));
  p.pitch = to_unit(std::int64_t{p.tile_columns} + reach);
  if (p.pitch > std::min(p.product_positions(), kMostBox)) return false;
  p.rows = std::min(p.product_positions() / p.pitch, p.h.positions);
  p.planes = 1;
  if (p.rows == p.h.positions) {
    const std::int64_t fit = (p.product_positions() / p.pitch + p.h.span()) / p.source_rows();
    p.planes = static_cast<std::int32_t>(std::min<std::int64_t>(fit, p.batch));
  }
  if (p.source_rows() > kMostBox) return false;
  p.row_tiles = static_cast<std::int32_t>(ceil_div(p.h.positions, p.rows));
  p.sample_tiles = static_cast<std::int32_t>(ceil_div(p.batch, p.planes));
  p.length = p.planes * p.source_rows() * p.pitch;
  p.tile_positions = p.length - p.h.span() * p.pitch;
  p.raw_stages = kLeastRawStages;
  p.out_buffers = 1;
  return choose_filter(p);
}

/// Clocks of a multiprocessor for a tile; fitted to the times of 42 shapes and arithmetics on an H200: predictions are
/// mostly 0.7 to 1.2 of the measured times, from 0.5 for few tiles to 1.6. Teams overlap, and stages do; the slowest
/// part remains.
double tile_clocks(const PackedPlan& p) {
  constexpr double kProduct = 0.77;                // for a position; the tensor cores' rate would be 0.5
  constexpr double kDrawn = 1.8;                   // slowdown of the L2 when all draw from it
  const double stage = p.parts > 1 ? 1500 : 1100;  // to copy and pack one
  constexpr double kTile = 700;                    // before its first product
  constexpr double kItem = 10, kResult = 0.47;     // stores: a position and phase of the columns; a result
  constexpr double kSplit = 3 * 1.35;              // products, which wait for each other
  constexpr double kSerial = 1.25;                 // if both teams store by way of one buffer
  const double product = (p.parts > 1 ? kSplit : 1) * kProduct * p.product_positions() * p.products();
  const double filter = p.filter_stays ? 0 : 16.0 * p.products() * p.product_vectors();
  const double drawn = kDrawn * (filter + p.raw_bytes()) / kBytesPerClock;
  const double stores = p.tile_positions * (kItem * p.w.phases + kResult * p.group_results());
  const double team = (kTile + p.stages() * product + stores) / kPackedTeams;
  return std::max({p.stages() * std::max({product, drawn, stage}), team, p.out_buffers == 1 ? kSerial * stores : 0});
}

/// Spends the rest of shared memory: first on a second stage in flight, then on a buffer for each team's results, then
/// on more stages.
void spend_smem(PackedPlan& p) {
  const auto raise = [&](std::int32_t& count) {
    ++count;
    if (p.smem_bytes() > kMaxSmemBytes) --count;
  };
  raise(p.raw_stages);
  raise(p.out_buffers);
  if (p.raw_stages > kLeastRawStages) raise(p.raw_stages);
}

bool place_tiles(PackedPlan& p) {
  double least = std::numeric_limits<double>::infinity();
  PackedPlan best = p;
  for (std::int32_t stack = 1; stack <= p.w.offsets; ++stack) {
    PackedPlan stacked = p;
    if (!stack_offsets(stacked, stack)) continue;
    for (std::int32_t pitch = kUnit; pitch <= stacked.product_positions(); pitch += kUnit) {
      PackedPlan tried = stacked;
      if (!place_columns(tried, pitch)) continue;
      spend_smem(tried);
      const double clocks = tile_clocks(tried) * tried.column_tiles * tried.row_tiles * tried.sample_tiles;
      if (clocks >= least) continue;
      least = clocks;
      best = tried;
    }
  }
  p = best;
  if (std::isinf(least)) return false;
  const std::int64_t tiles = std::int64_t{p.row_tiles} * p.sample_tiles;
  if (tiles * p.column_tiles * p.groups >= kMostTiles) return false;
  p.line_tiles = static_cast<std::int32_t>(tiles);
  p.pitch_divider = Divider(static_cast<std::uint32_t>(p.pitch));
  p.rows_divider = Divider(static_cast<std::uint32_t>(p.source_rows()));
  p.row_tiles_divider = Divider(static_cast<std::uint32_t>(p.row_tiles));
  p.sample_tiles_divider = Divider(static_cast<std::uint32_t>(p.sample_tiles));
  p.column_tiles_divider = Divider(static_cast<std::uint32_t>(p.column_tiles));
  p.phase_divider = Divider(static_cast<std::uint32_t>(p.w.phases));
  return true;
}

}  // namespace

bool plan_packed(const ConvGeometry& g, bool transposed, Arithmetic arithmetic, PackedPlan& p) {
  p = {};
  p.unit_channels = unit_elements(arithmetic);
  p.parts = is_split(arithmetic) ? 2 : 1;
  if (!plan_line(g, transposed, element_bytes(arithmetic), p)) return false;
  p.results = p.group_results();
  p.result_blocks = 1;
  const std::int32_t step_h = offset_step(p.h);
  p.stack_step = offset_step(p.w);
  if (step_h < 0 || p.stack_step < 0 || !place_tiles(p)) return false;
  p.step_h = step_h * p.pitch;
  return true;
}

TensorMapLayout packed_source_layout(const PackedPlan& p, const void* source, DType dtype) {
  const std::int64_t row = p.w.source, plane = row * p.h.source, group = plane * p.source_channels;
  return {.data = source,
          .dtype = dtype,
          .extents = {row, p.h.source, p.batch, p.source_channels, p.groups},
          .strides = {1, row, group * p.groups, plane, group},
          .box = {p.pitch, p.source_rows(), p.planes, p.stage_channels(), 1}};
}

double packed_clocks(const PackedPlan& p, const Machine& machine) {
  // In waves of one block a multiprocessor.
  return std::ceil(static_cast<double>(p.blocks()) / machine.multiprocessors) * tile_clocks(p);
}

}  // namespace adjoint::cuda

// Chooses columns, tiles and slots of the kernel for few columns and several taps.
#include <adjoint/ops/conv/ceil_div.h>
#include <adjoint/ops/conv/packed_plan.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxSmemBytes = 227 * 1024;  // of a block of sm_90
constexpr std::int32_t kMostSlotVectors = 8 * 1024 / 16;
constexpr std::int32_t kUnit = 8;  // of segments, for the copy engine's alignment, and of tiles, for memory's
constexpr std::int32_t kLeastRawGroups = 2;

/// Between neighbouring offsets of an axis; -1 where that differs.
std::int32_t offset_step(const LineAxis& a) {
  const std::int32_t step = a.offsets > 1 ? a.offset[1] - a.offset[0] : 0;
  for (std::int32_t i = 2; i < a.offsets; ++i) {
    if (a.offset[i] - a.offset[i - 1] != step) return -1;
  }
  return step;
}

/// Clocks of shared memory, or of the tensor cores where these are slower, in which 64 positions and eight units are
/// multiplied by the columns.
double product_clocks(const PackedPlan& p) {
  return (p.parts > 1 ? 3 : 1) * std::max(p.columns / 2.0, 16 + p.columns / 4.0);
}

bool set_columns(PackedPlan& p) {
  const auto columns =
      std::lower_bound(std::begin(kPackedColumns), std::end(kPackedColumns), p.group_results() * p.stack);
  if (columns == std::end(kPackedColumns)) return false;
  p.columns = *columns;
  return true;
}

/// Columns, and how many offsets of a row are stacked: what takes the fewest clocks a position. An offset that only
/// fills a product up lets infinity and NaN reach one position further: one such, next to the others, is the most.
bool choose_columns(PackedPlan& p) {
  const std::int32_t offsets = p.w.offsets;
  double least = std::numeric_limits<double>::infinity();
  std::int32_t stack = 0;
  for (p.stack = 1; p.stack <= offsets && set_columns(p); ++p.stack) {
    const std::int32_t products = (offsets + p.stack - 1) / p.stack, filled = products * p.stack;
    if (filled > offsets + (p.stack_step == 1 ? 1 : 0) || filled > kLineMaxOffsets) continue;
    const double clocks = products * product_clocks(p);
    if (clocks >= least) continue;
    least = clocks;
    stack = p.stack;
  }
  if (stack == 0) return false;
  p.stack = stack;
  set_columns(p);
  for (; p.w.offsets % stack != 0; ++p.w.offsets) {
    p.w.offset[p.w.offsets] = p.w.offset[p.w.offsets - 1] + p.stack_step;
    for (auto& taps : p.w.tap) taps[p.w.offsets] = -1;
  }
  p.results = p.group_results();
  p.result_blocks = 1;
  return true;
}

void choose_slots(PackedPlan& p) {
  const std::int32_t most = std::max(1, kMostSlotVectors / p.product_vectors());
  const std::int64_t slots = ceil_div(p.products(), most);
  p.slot_products = static_cast<std::int32_t>(ceil_div(p.products(), slots));
}

/// Tiles whose rows take at most `most_pitch` elements of the line. False where they hold no position, or shared memory
/// not the tile.
bool place_columns(PackedPlan& p, std::int32_t most_pitch) {
  const auto to_unit = [](std::int64_t a) { return static_cast<std::int32_t>(ceil_div(a, kUnit) * kUnit); };
  // The copy engine begins at multiples of 16 bytes.
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
  const std::int64_t pitch = std::int64_t{p.tile_columns} + reach, row_segments = ceil_div(pitch, kMostSegment);
  p.segment = to_unit(ceil_div(pitch, row_segments));
  p.pitch = static_cast<std::int32_t>(row_segments) * p.segment;
  if (p.pitch > p.rows()) return false;
  const std::int32_t rows = p.rows() / p.pitch;
  p.tile_positions = rows * p.pitch;
  p.length = (rows + p.h.span()) * p.pitch;
  p.segments = p.length / p.segment;
  p.raw_groups = kLeastRawGroups;
  return p.smem_bytes() <= kMaxSmemBytes;
}

/// Of all tiles: clocks of their products, and of their source, of which eight units are 32 bytes and a multiprocessor
/// draws some 20 a clock.
double tile_cost(const PackedPlan& p) {
  constexpr double kCopyClocks = 1.5;
  const double tile = p.rows() / 64.0 * p.products() * product_clocks(p) + kCopyClocks * p.length;
  const std::int64_t rows = p.batch * (std::int64_t{p.h.positions} + p.h.span());
  return tile * p.column_tiles * static_cast<double>(ceil_div(rows, p.tile_positions / p.pitch));
}

bool place_tiles(PackedPlan& p) {
  double least = std::numeric_limits<double>::infinity();
  PackedPlan best = p;
  for (std::int32_t pitch = kUnit; pitch <= p.rows(); pitch += kUnit) {
    PackedPlan tried = p;
    if (!place_columns(tried, pitch) || tile_cost(tried) >= least) continue;
    least = tile_cost(tried);
    best = tried;
  }
  p = best;
  p.segment_divider = Divider(static_cast<std::uint32_t>(std::max(1, p.segment)));
  return !std::isinf(least) && finish_line(p);
}

void choose_raw_groups(PackedPlan& p) {
  const std::int32_t most = std::min(kMostRawGroups, 2 * p.stages());
  p.raw_groups = kLeastRawGroups;
  while (p.raw_groups < most) {
    ++p.raw_groups;
    if (p.smem_bytes() > kMaxSmemBytes) {
      --p.raw_groups;
      return;
    }
  }
}

}  // namespace

bool plan_packed(const ConvGeometry& g, bool transposed, std::int64_t element_bytes, bool split, PackedPlan& p) {
  p = {};
  p.unit_channels = static_cast<std::int32_t>(4 / element_bytes);
  p.parts = split ? 2 : 1;
  if (!plan_line(g, transposed, element_bytes, p)) return false;
  const std::int32_t step_h = offset_step(p.h);
  p.stack_step = offset_step(p.w);
  if (step_h < 0 || p.stack_step < 0 || !choose_columns(p)) return false;
  p.step_w = p.stack * p.stack_step;
  choose_slots(p);
  if (!place_tiles(p)) return false;
  choose_raw_groups(p);
  p.step_h = step_h * p.pitch;
  return true;
}

TensorMapLayout packed_source_layout(const PackedPlan& p, const void* source, DType dtype) {
  const std::int64_t row = p.w.source, plane = row * p.h.source, group = plane * p.source_channels;
  return {.data = source,
          .dtype = dtype,
          .extents = {row, p.h.source, p.source_channels, p.groups, p.batch},
          .strides = {1, row, plane, group, group * p.groups},
          .box = {p.segment, 1, p.group_channels(), 1, 1}};
}

bool packed_pays(const PackedPlan& p) {
  // Fitted to measured times on an H200, two blocks a multiprocessor: a product of 64 positions and eight units, whose
  // operands come from shared memory at 128 bytes a clock; loading and packing 16 bytes; a block; a result.
  constexpr double kProduct = 0.8, kPack = 1.7, kBlock = 760, kStore = 0.15;
  const double products = p.rows() / 64.0 * p.products();
  const double stage = kProduct * product_clocks(p) * products + kPack * p.length * 2;
  const double tile = p.stages() * stage + kBlock + kStore * p.tile_positions * p.group_results();
  return line_block_clocks(p, tile) < kLineMargin * line_tensor_core_clocks(p, p.unit_channels, p.parts > 1);
}

}  // namespace adjoint::cuda

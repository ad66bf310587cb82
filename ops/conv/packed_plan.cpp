// Chooses columns, tiles and slots of the kernel for few columns and several taps.
#include <adjoint/ops/conv/packed_plan.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxSmemBytes = 113 * 1024;  // two blocks on a multiprocessor of sm_90
constexpr std::int32_t kMostSlotVectors = 6 * 1024 / 16;
/// Where float32 is split: a slot's products are one sum on the tensor cores, which cut its low bits off.
constexpr std::int32_t kMostSplitProducts = 3;
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
    const std::int32_t lost = (p.stack - 1) * p.stack_step;
    if (8 * lost > p.rows()) continue;
    const double clocks = products * product_clocks(p) * p.rows() / (p.rows() - lost);
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
  // Whole vectors, as tiles begin with them.
  p.tile_positions = p.rows() - ((stack - 1) * p.stack_step + p.vector - 1) / p.vector * p.vector;
  return true;
}

void choose_slots(PackedPlan& p) {
  p.slot_products = 1;
  std::int32_t most = std::max(1, kMostSlotVectors / p.slot_vectors());
  if (p.parts > 1) most = std::min(most, kMostSplitProducts);
  p.row_slots = (p.row_products() + most - 1) / most;
  p.slot_products = (p.row_products() + p.row_slots - 1) / p.row_slots;
  p.row_slots = (p.row_products() + p.slot_products - 1) / p.slot_products;
}

/// Shared memory without what grows with the line, and what an element of the line takes, with the fewest raw groups.
std::int64_t most_length(const PackedPlan& plan) {
  PackedPlan p = plan;
  p.raw_groups = kLeastRawGroups;
  p.length = 0;
  const std::int64_t fixed = p.table_bytes() + 128 + kPackedFilterSlots * 16 * p.slot_vectors();
  p.length = 1;
  const std::int64_t element = 4 + kPackedStages * p.stage_bytes() + p.raw_groups * p.group_bytes();
  return (kMaxSmemBytes - fixed) / element;
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
  // Eight units of a position are 32 bytes, of which a multiprocessor draws some 20 a clock.
  constexpr double kCopyClocks = 1.5;
  if (!place_line(most_length(p), 64 * kCopyClocks / (p.h.offsets * p.row_products() * product_clocks(p)), p))
    return false;
  choose_raw_groups(p);
  p.step_h = step_h * p.pitch;
  return p.smem_bytes() <= kMaxSmemBytes;
}

bool packed_pays(const PackedPlan& p) {
  // Fitted to measured times on an H200, two blocks a multiprocessor: a product of 64 positions and eight units, whose
  // operands come from shared memory at 128 bytes a clock; loading and packing 16 bytes; a block; a result.
  constexpr double kProduct = 0.8, kPack = 1.7, kBlock = 760, kStore = 0.15;
  const double products = p.rows() / 64.0 * p.h.offsets * p.row_products();
  const double stage = kProduct * product_clocks(p) * products + kPack * p.length * 2;
  const double tile = p.stages() * stage + kBlock + kStore * p.tile_positions * p.group_results();
  return line_block_clocks(p, tile) < kLineMargin * line_tensor_core_clocks(p, p.unit_channels, p.parts > 1);
}

}  // namespace adjoint::cuda

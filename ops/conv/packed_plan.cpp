// Chooses columns and stages of the kernel for few columns and several taps.
#include <adjoint/ops/conv/packed_plan.h>

#include <algorithm>
#include <iterator>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxSmemBytes = 113 * 1024;  // two blocks on a multiprocessor of sm_90
constexpr std::int32_t kMostStageUnits = 32;
constexpr std::int32_t kLeastUnits = 8;  // of a product

bool choose_columns(PackedPlan& p) {
  const auto columns = std::lower_bound(std::begin(kPackedColumns), std::end(kPackedColumns), p.group_results());
  if (columns == std::end(kPackedColumns)) return false;
  p.columns = *columns;
  p.results = p.group_results();
  p.result_blocks = 1;
  p.tile_positions = kPackedThreads / 128 * 64 * packed_m_tiles(p.columns);
  return true;
}

/// Between neighbouring offsets of an axis; -1 where that differs.
std::int32_t offset_step(const LineAxis& a) {
  const std::int32_t step = a.offsets > 1 ? a.offset[1] - a.offset[0] : 0;
  for (std::int32_t i = 2; i < a.offsets; ++i) {
    if (a.offset[i] - a.offset[i - 1] != step) return -1;
  }
  return step;
}

bool choose_stage(PackedPlan& p) {
  const std::int32_t units = (p.source_channels + p.unit_channels - 1) / p.unit_channels;
  const std::int32_t all = (units + kLeastUnits - 1) / kLeastUnits * kLeastUnits;
  for (p.stage_units = std::min(kMostStageUnits, all); p.stage_units > 0; p.stage_units -= kLeastUnits) {
    if (p.smem_bytes() <= kMaxSmemBytes) return true;
  }
  return false;
}

}  // namespace

bool plan_packed(const ConvGeometry& g, bool transposed, std::int64_t element_bytes, PackedPlan& p) {
  p = {};
  if (!plan_line(g, transposed, element_bytes, p) || !choose_columns(p)) return false;
  p.unit_channels = static_cast<std::int32_t>(4 / element_bytes);
  const std::int32_t step_h = offset_step(p.h);
  p.step_w = offset_step(p.w);
  if (step_h < 0 || p.step_w < 0) return false;
  // Two stages of eight units, and a table; a descriptor counts 16 bytes in 14 bits.
  if (!place_line(kMaxSmemBytes / (4 * (2 * kLeastUnits + 1)), p) || !choose_stage(p)) return false;
  p.step_h = step_h * p.pitch;
  p.fours_divider = Divider(static_cast<std::uint32_t>(p.length / 4));
  return true;
}

bool packed_pays(const PackedPlan& p) {
  // Fitted to measured times on an H200, two blocks a multiprocessor: a product of 64 positions and eight units, whose
  // operands come from shared memory at 128 bytes a clock; loading and packing 16 bytes; a block; a result.
  constexpr double kProduct = 0.8, kPack = 1.7, kBlock = 760, kStore = 0.15;
  const double product = std::max(p.columns / 2.0, 16 + p.columns / 4.0);
  const double products = p.tile_positions / 64.0 * p.stage_units / 8 * p.offsets();
  const double stage = kProduct * product * products + kPack * p.length * p.stage_units / 4;
  const double tile = p.stages() * stage + kBlock + kStore * p.tile_positions * p.group_results();
  return line_block_clocks(p, tile) < kLineMargin * line_tensor_core_clocks(p, p.unit_channels, false);
}

}  // namespace adjoint::cuda

// Chooses blocks, stages and splits of conv_weight's mma.sync kernels by a small model of their clocks.
#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/weight/parts.h>

#include <algorithm>

namespace adjoint::cuda {
namespace {

using namespace weight_parts;

constexpr std::int64_t kMmaSmemBytes = 160 * 1024;  // fits sm_80 too
constexpr int kSmemStages = 3;

bool build_stage(WeightPlan& p, std::int32_t taps_per_block, TapBlockSizes& sizes) {
  if (!build_tap_blocks(p, taps_per_block, sizes)) return false;
  p.feature_pitch = static_cast<std::int32_t>(pitch_of(std::int64_t{1} << p.log2_positions(), p.unit_elements));
  p.smem_stages = kSmemStages;
  return weight_smem_bytes(p) <= kMmaSmemBytes;
}

/// As many as make up two blocks a multiprocessor.
std::int64_t splits_wanted(const WeightPlan& p, const Machine& machine) {
  return std::clamp<std::int64_t>(2 * machine.multiprocessors / p.blocks_per_split(), 1,
                                  std::max<std::int64_t>(p.stages / 4, 1));
}

double model_clocks(const WeightPlan& p, bool split, const Machine& machine) {
  const double positions = 1 << p.log2_positions();
  const double products =
      static_cast<double>(p.tile_rows) * p.tile_columns * positions / p.unit_elements / 512 * (split ? 3 : 1);
  const double bytes =
      (static_cast<double>(p.block_channels) * p.planes_h * p.planes_w * p.rows * p.cols + p.tile_columns * positions) *
      4 / p.unit_elements;
  const double stage = std::max(products, bytes / kBytesPerClock) + 200;
  const double waves =
      static_cast<double>(ceil_div(p.blocks_per_split() * p.splits, std::int64_t{machine.multiprocessors}));
  const double partial = static_cast<double>(p.tile_rows) * p.tile_columns * 8 / kBytesPerClock;
  return waves * (stage * static_cast<double>(p.stages_per_split) + partial);
}

}  // namespace

std::int64_t weight_smem_bytes(const WeightPlan& p) { return mma_stage_bytes(p, 4 / p.unit_elements) * p.smem_stages; }

std::int64_t weight_workspace_bytes(const WeightPlan& p) {
  return p.blocks_per_split() * p.splits * p.tile_rows * p.tile_columns * 4;
}

bool plan_weight(const ConvGeometry& g, Arithmetic arithmetic, const Machine& machine, WeightPlan& plan) {
  if (!supported(g)) return false;
  WeightPlan candidate;
  const bool split = is_split(arithmetic);
  set_geometry(g, unit_elements(arithmetic), candidate);
  const std::int64_t taps = g.taps();
  TapBlockSizes sizes;
  LeastClocks least;
  for (const WeightTile& tile : kWeightTiles) {
    if (split && tile.columns == 128) continue;  // its sums leave no registers for totals
    candidate.tile_rows = tile.rows;
    candidate.tile_columns = tile.columns;
    candidate.column_blocks = static_cast<std::int32_t>(ceil_div(candidate.feature_channels, tile.columns));
    // 32 or 64 positions a stage, each of its rows a multiple of the instruction's depth.
    const int log2_depth = candidate.unit_elements == 1 ? 3 : 4;
    for (const int log2_positions : {5, 6}) {
      for (int w = log2_depth; w <= log2_positions; ++w) {
        set_tile(candidate, 0, log2_positions - w, w);
        if (candidate.stages >= kMaxStages) continue;
        for (std::int32_t channels = tile.rows; channels >= 1; channels /= 2) {
          if (channels >= 2 * candidate.image_channels && channels > 1) continue;
          candidate.block_channels = std::min(channels, candidate.image_channels);
          candidate.channel_blocks =
              static_cast<std::int32_t>(ceil_div(candidate.image_channels, candidate.block_channels));
          const auto most =
              static_cast<std::int32_t>(std::min<std::int64_t>(tile.rows / candidate.block_channels, taps));
          for (std::int32_t per_block = most; per_block >= 1; per_block /= 2) {
            if (!build_stage(candidate, per_block, sizes)) continue;
            set_splits(candidate, splits_wanted(candidate, machine));
            if (least.take(model_clocks(candidate, split, machine))) plan = candidate;
            break;
          }
        }
      }
    }
  }
  if (!least.found()) return false;
  set_tap_blocks(plan);
  return true;
}

}  // namespace adjoint::cuda

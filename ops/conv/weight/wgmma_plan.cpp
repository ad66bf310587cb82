// Chooses blocks, stages and splits of conv_weight's wgmma kernels by a model of their clocks.
#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/weight/boxes_plan.h>
#include <adjoint/ops/conv/weight/parts.h>

#include <algorithm>
#include <iterator>

namespace adjoint::cuda {
namespace {

using namespace weight_parts;

constexpr std::int64_t kWgmmaSmemBytes = 224 * 1024;
constexpr int kLeastStages = 3;           // the minimum for the ring of stages not to deadlock
constexpr std::int64_t kMaxItems = 4096;  // of weight_item(): 8 bytes of shared memory each

double wide(std::int64_t value) { return static_cast<double>(value); }

/// The ring uses all the shared memory. Items' rows and columns are packed in 16 bits each.
bool build_stage(WeightPlan& p, std::int32_t taps_per_block, bool split, TapBlockSizes& sizes) {
  if (p.boxes) {
    if (!build_box_blocks(p, taps_per_block, sizes)) return false;
  } else {
    if (!build_tap_blocks(p, taps_per_block, sizes)) return false;
    if (p.image_stage() << p.log2_tile_n > kMaxItems) return false;
    if (p.rows * p.stride_h + p.planes_h > 0xffff || p.cols * p.stride_w + p.planes_w > 0xffff) return false;
  }
  p.smem_stages = 0;
  const std::int64_t left = kWgmmaSmemBytes - wgmma_weight_smem_bytes(p, split);
  p.smem_stages =
      static_cast<std::int32_t>(std::min<std::int64_t>(left / wgmma_stage_bytes(p, split), kMaxWeightStages));
  return p.smem_stages >= kLeastStages;
}

/// Bytes of the 32-byte sectors that rows of `row_bytes` touch, relative to the rows' own bytes; few rows begin at a
/// sector's first byte.
double sectors(double row_bytes) { return (row_bytes + 32) / row_bytes; }

/// Bytes that a stage draws from the L2.
double stage_bytes(const WeightPlan& p) {
  const double size = 4.0 / p.unit_elements;
  const double image = wide(p.block_channels) * wide(p.image_stage() << p.log2_tile_n) * size;
  const double feature = wide(std::min(p.tile_columns, p.feature_channels) << p.log2_positions()) * size;
  const bool whole_rows = p.feature_w == 1 << p.log2_tile_w;
  const double feature_row = size * (1 << (p.log2_tile_w + (whole_rows ? p.log2_tile_h : 0)));
  return image * sectors(wide(p.cols * p.planes_w) * size) + feature * sectors(feature_row);
}

/// The clocks of one stage, by the busiest of the multiprocessor's parts.
double stage_clocks(const WeightPlan& p, bool split) {
  const double positions = 1 << p.log2_positions(), unit_bytes = 4, products = split ? 3 : 1;
  const double tiles = positions / (8 * p.unit_elements) * (p.tile_rows / 64);  // wgmma's, of 64 rows, all columns
  const double image = wide(p.block_channels) * wide(p.image_stage() << p.log2_tile_n) / p.unit_elements;  // in units
  const double feature = p.tile_columns * positions / p.unit_elements;
  const double matrix = tiles * products * p.tile_columns / 2;
  // Half precision reads odd offsets twice; rows that are not eight neighbouring channels conflict in banks.
  const double fragment = 16 * (p.unit_elements == 2 ? 1.5 : 1) * (p.block_channels % 8 == 0 ? 1 : 2);
  const double shared =
      tiles * (fragment + products * p.tile_columns / 4) + (image + feature * (split ? 2 : 1)) * unit_bytes / 128;
  const double memory = stage_bytes(p) / kBytesPerClock;
  // Instructions of the loaders' warps; with a stride, float32 is copied one by one and halves are sorted in registers.
  const double per_copy = p.stride_w == 1                 ? 5.0 / 2
                          : p.unit_elements == 1          ? 6
                          : wgmma_image_vector(p, 8) == 8 ? 3
                                                          : 2 * 10;
  const double loaders = (image * per_copy + feature * (split ? 6 : 3)) / 128 + 100;
  // Parts that wait for each other overlap partly.
  return std::max({matrix, shared, memory, loaders}) + (matrix + shared) / 8 + 100;
}

double model_clocks(const WeightPlan& p, double stage, const Machine& machine) {
  const double waves = wide(ceil_div(p.blocks_per_split() * p.splits, std::int64_t{machine.multiprocessors}));
  // A tile's rows are apart: writing one, or adding it to others, costs as much as kRowColumns columns.
  constexpr double kRowColumns = 100, kAdding = 1.3;
  const double tile = wide(p.tile_rows) * (p.tile_columns + kRowColumns) * 4;
  const double start = 3000 + tile / kBytesPerClock;
  const double reduction =
      kAdding * tile * wide(p.blocks_per_split() * p.splits) / machine.multiprocessors / kBytesPerClock;
  return waves * (stage * wide(p.stages_per_split) + start) + reduction;
}

double clocks_of_stage(const WeightPlan& p, bool split) {
  return p.boxes ? box_stage_clocks(p, split) : stage_clocks(p, split);
}

/// A lower bound that is known before the taps are cut: the products' time and that of their reads of the feature.
double least_clocks_of_stage(const WeightPlan& p, bool split) {
  const double positions = 1 << p.log2_positions(), products = split ? 3 : 1;
  const double tiles = positions / (8 * p.unit_elements) * (p.tile_rows / 64);
  const double matrix = tiles * products * p.tile_columns / 2, shared = tiles * (products * p.tile_columns / 4);
  return std::max(matrix, shared) + (matrix + shared) / 8;
}

struct Search {
  bool split;
  const Machine& machine;
  WeightPlan candidate;
  WeightPlan& plan;
  LeastClocks least{};
  TapBlockSizes sizes{};

  /// A lower bound: all blocks' stages, spread evenly.
  double least_clocks(double stage, double blocks) const {
    return stage * blocks * wide(candidate.stages) / machine.multiprocessors;
  }

  /// Tries whole waves of blocks with a stage of that many clocks. Returns true if some would be the best so far, and
  /// keeps them if `keeps`.
  bool try_splits(double stage, bool keeps) {
    bool any = false;
    const std::int64_t blocks = candidate.blocks_per_split();
    if (least_clocks(stage, wide(blocks)) >= least.best()) return false;
    std::int64_t before = 0;
    for (std::int64_t waves = 1; waves <= 4; ++waves) {
      const std::int64_t most = std::max<std::int64_t>(candidate.stages / 4, 1);
      const std::int64_t splits = std::clamp<std::int64_t>(machine.multiprocessors * waves / blocks, 1, most);
      if (splits == before) continue;
      before = splits;
      set_splits(candidate, splits);
      const double clocks = model_clocks(candidate, stage, machine);
      if (clocks >= least.best()) continue;
      any = true;
      if (!keeps) break;
      if (least.take(clocks)) plan = candidate;
    }
    return any;
  }

  /// Cuts taps and channels into equal blocks: as many taps as a block may have, and then as many channels as fit.
  void try_blocks() {
    const std::int32_t taps = candidate.kernel_h * candidate.kernel_w;
    const double stage = least_clocks_of_stage(candidate, split);
    const double full_blocks = wide(candidate.image_channels) * taps / candidate.tile_rows;
    if (least_clocks(stage, candidate.groups * candidate.column_blocks * full_blocks) >= least.best()) return;
    std::int32_t before = 0;
    for (std::int32_t blocks = 1; blocks <= std::min(taps, kMaxTapBlocks); ++blocks) {
      const auto per_block = static_cast<std::int32_t>(ceil_div(taps, blocks));
      if (per_block == before || per_block > candidate.tile_rows) continue;
      before = per_block;
      const std::int32_t most = std::min(candidate.tile_rows / per_block, candidate.image_channels);
      std::int64_t channels = ceil_div(candidate.image_channels, ceil_div(candidate.image_channels, most));
      // Eight neighbouring channels a fragment, in each box, are read without bank conflicts.
      const std::int64_t together = 8 * candidate.residues, rounded = ceil_div(channels, together) * together;
      if (rounded <= candidate.tile_rows / per_block) channels = rounded;
      candidate.block_channels = static_cast<std::int32_t>(channels);
      candidate.channel_blocks = static_cast<std::int32_t>(ceil_div(candidate.image_channels, channels));
      candidate.tap_blocks = static_cast<std::int32_t>(ceil_div(taps, per_block));
      if (!try_splits(stage, false)) continue;  // building is slowest
      if (build_stage(candidate, per_block, split, sizes)) try_splits(clocks_of_stage(candidate, split), true);
    }
  }

  void try_stages() {
    const int log2_least_w = candidate.unit_elements == 1 ? 2 : 3;  // positions of half an instruction's depth
    for (const int log2_positions : {5, 6, 7}) {
      const int positions = candidate.boxes ? candidate.line_positions()
                                            : wgmma_weight_positions(candidate.tile_columns, candidate.unit_elements);
      if (1 << log2_positions < positions) continue;
      for (int w = log2_positions; w >= log2_least_w; --w) {  // the widest of equals, which needs fewer instructions
        for (int h = 0; h <= log2_positions - w; ++h) {
          set_tile(candidate, log2_positions - w - h, h, w);
          if (candidate.stages < kMaxStages && (!candidate.boxes || tile_takes_boxes(candidate))) try_blocks();
        }
      }
    }
  }
};

/// The best plan of all tiles, or of `only`.
bool search(const ConvGeometry& g, Arithmetic arithmetic, bool boxes, WeightTile only, const Machine& machine,
            WeightPlan& plan) {
  if (!supported(g)) return false;
  const bool split = is_split(arithmetic);
  Search search{.split = split, .machine = machine, .candidate = {}, .plan = plan};
  WeightPlan& candidate = search.candidate;
  set_geometry(g, unit_elements(arithmetic), candidate);
  candidate.boxes = boxes;
  if (boxes && (g.batch == 0 || !rows_take_boxes(candidate))) return false;  // no tensor map has an empty axis
  for (const WeightTile& tile : kWgmmaWeightTiles) {
    if (split && !wgmma_weight_splits(tile)) continue;
    if (only.rows != 0 && (tile.rows != only.rows || tile.columns != only.columns)) continue;
    candidate.tile_rows = tile.rows;
    candidate.tile_columns = tile.columns;
    candidate.column_blocks = static_cast<std::int32_t>(ceil_div(candidate.feature_channels, tile.columns));
    search.try_stages();
  }
  if (!search.least.found()) return false;
  set_tap_blocks(plan);
  for (int i = 0; i < static_cast<int>(std::size(plan.quad_offsets)); ++i) {
    const std::int32_t position = 4 * plan.unit_elements << i;
    plan.quad_offsets[i] = position < 1 << plan.log2_positions() ? weight_position_offset(plan, position) : 0;
  }
  return true;
}

}  // namespace

double weight_parts::wgmma_weight_clocks(const WeightPlan& p, bool split, const Machine& machine) {
  return model_clocks(p, clocks_of_stage(p, split), machine);
}

std::int64_t wgmma_weight_smem_bytes(const WeightPlan& p, bool split) {
  return std::int64_t{wgmma_stage_bytes(p, split)} * p.smem_stages +
         (p.boxes ? 0 : std::int64_t{8} * (p.image_stage() << p.log2_tile_n));
}

bool plan_wgmma_weight(const ConvGeometry& g, Arithmetic arithmetic, const Machine& machine, WeightPlan& plan,
                       WeightTile only) {
  return search(g, arithmetic, false, only, machine, plan);
}

bool plan_boxed_weight(const ConvGeometry& g, Arithmetic arithmetic, const Machine& machine, WeightPlan& plan,
                       WeightTile only) {
  return search(g, arithmetic, true, only, machine, plan);
}

}  // namespace adjoint::cuda

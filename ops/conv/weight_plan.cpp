// Chooses blocks, stages and splits of conv_weight's tensor-core kernels by a small model of their clocks.
#include <adjoint/ops/conv/weight_plan.h>

#include <algorithm>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
constexpr std::int64_t kMaxPlane = std::int64_t{1} << 31;
constexpr std::int64_t kMaxStages = std::int64_t{1} << 31;
constexpr std::int64_t kSmemBytes = 160 * 1024;  // fits sm_80 too
constexpr std::int64_t kBlocksWanted = 264;      // two for each of an H100's multiprocessors; splits make up the number
constexpr std::int64_t kMaxWorkspace = std::int64_t{512} << 20;
constexpr int kSmemStages = 3;
constexpr double kBytesPerClock = 18;  // that one multiprocessor draws from the L2 when all do

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// At least `elements`, and 4 modulo 32 banks, so that eight channels' fragments of four units hit each bank once.
std::int64_t pitch_of(std::int64_t elements, int unit_elements) {
  return (ceil_div(ceil_div(elements, unit_elements) - 4, 32) * 32 + 4) * unit_elements;
}

bool supported(const ConvGeometry& g) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (g.image[axis] >= kMaxExtent || g.feature[axis] >= kMaxExtent || g.padding[axis] >= kMaxExtent) return false;
    if (g.kernel[axis] >= kMaxExtent || g.stride[axis] > 64 || g.dilation[axis] >= kMaxExtent) return false;
    if (g.dilation[axis] * g.kernel[axis] >= kMaxExtent) return false;
  }
  return g.image_plane() < kMaxPlane && g.feature_plane() < kMaxPlane && g.image_channels < kMaxExtent &&
         g.feature_channels < kMaxExtent && g.batch < kMaxExtent && g.filter_numel() > 0;
}

struct Range {
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = std::numeric_limits<std::int64_t>::min();
  void add(std::int64_t value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Cuts the taps into blocks of `taps_per_block` and finds the stage that fits them all.
bool build_tap_blocks(WeightPlan& p, std::int32_t taps_per_block) {
  const std::int32_t taps = p.kernel_h * p.kernel_w;
  p.tap_blocks = static_cast<std::int32_t>(ceil_div(taps, taps_per_block));
  if (p.tap_blocks > kMaxTapBlocks) return false;
  const std::int32_t alignment = p.stride_w == 1 ? 4 * p.unit_elements : p.unit_elements;
  std::int64_t rows = 1, cols = 1, planes_h = 1, planes_w = 1;
  for (std::int32_t b = 0; b < p.tap_blocks; ++b) {
    WeightTapBlock& block = p.tap_block[b];
    block.first_tap = b * taps_per_block;
    block.taps = std::min(taps_per_block, taps - block.first_tap);
    Range h, w, plane_h, plane_w;
    for (std::int32_t tap = block.first_tap; tap < block.first_tap + block.taps; ++tap) {
      const std::int64_t at_h = std::int64_t{tap / p.kernel_w} * p.dilation_h - p.padding_h;
      const std::int64_t at_w = std::int64_t{tap % p.kernel_w} * p.dilation_w - p.padding_w;
      h.add(weight_floor_div(at_h, p.stride_h));
      w.add(weight_floor_div(at_w, p.stride_w));
      plane_h.add(at_h - std::int64_t{weight_floor_div(at_h, p.stride_h)} * p.stride_h);
      plane_w.add(at_w - std::int64_t{weight_floor_div(at_w, p.stride_w)} * p.stride_w);
    }
    block.h_base = static_cast<std::int32_t>(h.low);
    block.w_base = weight_floor_div(w.low, alignment) * alignment;
    block.first_plane_h = static_cast<std::int32_t>(plane_h.low);
    block.first_plane_w = static_cast<std::int32_t>(plane_w.low);
    rows = std::max(rows, h.high - h.low + (std::int64_t{1} << p.log2_tile_h));
    cols = std::max(cols, w.high - block.w_base + (std::int64_t{1} << p.log2_tile_w));
    planes_h = std::max(planes_h, plane_h.high - plane_h.low + 1);
    planes_w = std::max(planes_w, plane_w.high - plane_w.low + 1);
  }
  cols = ceil_div(cols + (p.unit_elements - 1), alignment) * alignment;  // a half's odd offset reads one unit further
  const std::int64_t stage = planes_h * planes_w * rows * cols;
  if (stage > (1 << 16)) return false;
  p.rows = static_cast<std::int32_t>(rows);
  p.cols = static_cast<std::int32_t>(cols);
  p.planes_h = static_cast<std::int32_t>(planes_h);
  p.planes_w = static_cast<std::int32_t>(planes_w);
  p.image_pitch = static_cast<std::int32_t>(pitch_of(stage, p.unit_elements));
  p.feature_pitch =
      static_cast<std::int32_t>(pitch_of(std::int64_t{1} << (p.log2_tile_h + p.log2_tile_w), p.unit_elements));
  p.smem_stages = kSmemStages;
  return weight_smem_bytes(p) <= kSmemBytes;
}

void set_splits(WeightPlan& p) {
  p.stages = p.batch * p.tiles_h * p.tiles_w;
  const std::int64_t blocks = p.blocks_per_split();
  std::int64_t splits = std::clamp<std::int64_t>(kBlocksWanted / blocks, 1, std::max<std::int64_t>(p.stages / 4, 1));
  const std::int64_t bytes = blocks * p.tile_rows * p.tile_columns * 4;
  splits = std::max<std::int64_t>(std::min(splits, kMaxWorkspace / bytes), 1);
  p.stages_per_split = std::max<std::int64_t>(ceil_div(p.stages, splits), 1);
  p.splits = static_cast<std::int32_t>(std::max<std::int64_t>(ceil_div(p.stages, p.stages_per_split), 1));
}

double model_clocks(const WeightPlan& p, bool split) {
  const double positions = 1 << (p.log2_tile_h + p.log2_tile_w);
  const double products =
      static_cast<double>(p.tile_rows) * p.tile_columns * positions / p.unit_elements / 512 * (split ? 3 : 1);
  const double bytes =
      (static_cast<double>(p.block_channels) * p.planes_h * p.planes_w * p.rows * p.cols + p.tile_columns * positions) *
      4 / p.unit_elements;
  const double stage = std::max(products, bytes / kBytesPerClock) + 200;
  const double waves = static_cast<double>(ceil_div(p.blocks_per_split() * p.splits, kBlocksWanted / 2));
  const double partial = static_cast<double>(p.tile_rows) * p.tile_columns * 8 / kBytesPerClock;
  return waves * (stage * static_cast<double>(p.stages_per_split) + partial);
}

void set_geometry(const ConvGeometry& g, int unit_elements, WeightPlan& p) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  p = {};
  p.groups = narrow(g.groups);
  p.batch = g.batch;
  p.unit_elements = unit_elements;
  p.image_channels = narrow(g.image_channels_per_group());
  p.feature_channels = narrow(g.feature_channels_per_group());
  p.image_h = narrow(g.image[0]);
  p.image_w = narrow(g.image[1]);
  p.feature_h = narrow(g.feature[0]);
  p.feature_w = narrow(g.feature[1]);
  p.kernel_h = narrow(g.kernel[0]);
  p.kernel_w = narrow(g.kernel[1]);
  p.stride_h = narrow(g.stride[0]);
  p.stride_w = narrow(g.stride[1]);
  p.padding_h = narrow(g.padding[0]);
  p.padding_w = narrow(g.padding[1]);
  p.dilation_h = narrow(g.dilation[0]);
  p.dilation_w = narrow(g.dilation[1]);
}

}  // namespace

std::int64_t weight_smem_bytes(const WeightPlan& p) {
  const std::int64_t elements =
      std::int64_t{p.block_channels} * p.image_pitch + std::int64_t{p.tile_columns} * p.feature_pitch;
  return elements * 4 / p.unit_elements * p.smem_stages;
}

std::int64_t weight_workspace_bytes(const WeightPlan& p) {
  return p.blocks_per_split() * p.splits * p.tile_rows * p.tile_columns * 4;
}

bool plan_weight(const ConvGeometry& g, int unit_elements, bool split, WeightPlan& plan) {
  if (!supported(g)) return false;
  WeightPlan candidate;
  set_geometry(g, unit_elements, candidate);
  const std::int64_t taps = g.taps();
  double best = std::numeric_limits<double>::infinity();
  for (const WeightTile& tile : kWeightTiles) {
    if (split && tile.columns == 128) continue;  // its sums leave no registers for totals
    candidate.tile_rows = tile.rows;
    candidate.tile_columns = tile.columns;
    candidate.column_blocks = static_cast<std::int32_t>(ceil_div(candidate.feature_channels, tile.columns));
    // 32 or 64 positions a stage, each row of them a multiple of the instruction's depth.
    const int log2_depth = unit_elements == 1 ? 3 : 4;
    for (const int log2_positions : {5, 6}) {
      for (int w = log2_depth; w <= log2_positions; ++w) {
        candidate.log2_tile_w = w;
        candidate.log2_tile_h = log2_positions - w;
        candidate.tiles_w = static_cast<std::int32_t>(ceil_div(candidate.feature_w, std::int64_t{1} << w));
        candidate.tiles_h =
            static_cast<std::int32_t>(ceil_div(candidate.feature_h, std::int64_t{1} << candidate.log2_tile_h));
        for (std::int32_t channels = tile.rows; channels >= 1; channels /= 2) {
          if (channels >= 2 * candidate.image_channels && channels > 1) continue;
          candidate.block_channels = std::min(channels, candidate.image_channels);
          candidate.channel_blocks =
              static_cast<std::int32_t>(ceil_div(candidate.image_channels, candidate.block_channels));
          const auto most =
              static_cast<std::int32_t>(std::min<std::int64_t>(tile.rows / candidate.block_channels, taps));
          for (std::int32_t per_block = most; per_block >= 1; per_block /= 2) {
            if (!build_tap_blocks(candidate, per_block)) continue;
            set_splits(candidate);
            if (candidate.stages >= kMaxStages) break;
            const double clocks = model_clocks(candidate, split);
            if (clocks < best) {
              best = clocks;
              plan = candidate;
            }
            break;
          }
        }
      }
    }
  }
  return best < std::numeric_limits<double>::infinity();
}

}  // namespace adjoint::cuda

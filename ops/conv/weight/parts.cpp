#include <adjoint/ops/conv/weight/parts.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace adjoint::cuda {

WeightOrder weight_order(const Unshuffle& filter) {
  if (filter.planes == 0) return {};
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  return {narrow(filter.residues[0]), narrow(filter.residues[1]), narrow(filter.stride[0]),
          narrow(filter.stride[1]),   narrow(filter.extents[0]),  narrow(filter.extents[1])};
}

namespace weight_parts {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
constexpr std::int64_t kMaxPlane = std::int64_t{1} << 31;  // and filter

/// Taps of an axis, from first to last.
struct Run {
  std::int32_t first, last;
};

/// Adds the residues of a run's source positions modulo `stride`. They repeat after `stride` taps.
void add_residues(const Run& run, std::int32_t stride, std::int32_t dilation, std::int32_t padding, Range& residues) {
  if (run.last - run.first >= stride - 1 && std::gcd(dilation, stride) == 1) {  // all residues
    residues.add(0);
    residues.add(stride - 1);
    return;
  }
  const std::int32_t last = std::min(run.last, run.first + stride - 1);
  const std::int64_t first_at = std::int64_t{run.first} * dilation - padding, step = dilation % stride;
  std::int64_t residue = first_at - std::int64_t{weight_floor_div(first_at, stride)} * stride;
  for (std::int32_t tap = run.first; tap <= last; ++tap) {
    residues.add(residue);
    residue += step;
    if (residue >= stride) residue -= stride;
  }
}

/// The first and the last row and column of the image that a block's taps read for the position (0, 0).
struct TapSpan {
  Range h, w;
};

TapSpan tap_span(const WeightPlan& p, const WeightTapBlock& block) {
  const std::int32_t last = block.first_tap + block.taps - 1;
  const std::int32_t first_h = block.first_tap / p.kernel_w, last_h = last / p.kernel_w;
  const std::int32_t first_w = first_h == last_h ? block.first_tap % p.kernel_w : 0;
  const std::int32_t last_w = first_h == last_h ? last % p.kernel_w : p.kernel_w - 1;
  const auto at_h = [&](std::int32_t tap) { return std::int64_t{tap} * p.dilation_h - p.padding_h; };
  const auto at_w = [&](std::int32_t tap) { return std::int64_t{tap} * p.dilation_w - p.padding_w; };
  return {{at_h(first_h), at_h(last_h)}, {at_w(first_w), at_w(last_w)}};
}

/// The block that begins with a tap; widens `all` to hold its stage.
WeightTapBlock tap_block(const WeightPlan& p, std::int32_t first_tap, std::int32_t taps_per_block,
                         std::int32_t alignment, TapBlocks& all) {
  const std::int32_t stride_h = p.boxes ? 1 : p.stride_h, stride_w = p.boxes ? 1 : p.stride_w;
  WeightTapBlock block{.first_tap = first_tap, .taps = std::min(taps_per_block, p.kernel_h * p.kernel_w - first_tap)};
  const TapSpan at = tap_span(p, block);
  const std::int32_t low_h = weight_floor_div(at.h.low, stride_h), high_h = weight_floor_div(at.h.high, stride_h);
  const std::int32_t low_w = weight_floor_div(at.w.low, stride_w), high_w = weight_floor_div(at.w.high, stride_w);
  Range plane_h, plane_w;
  const std::int32_t last = first_tap + block.taps - 1;
  const Run run_h{first_tap / p.kernel_w, last / p.kernel_w};
  const std::int32_t first_w = first_tap % p.kernel_w, last_w = last % p.kernel_w;
  add_residues(run_h, stride_h, p.dilation_h, p.padding_h, plane_h);
  const auto add_w = [&](const Run& run) { add_residues(run, stride_w, p.dilation_w, p.padding_w, plane_w); };
  switch (run_h.last - run_h.first) {
    case 0: add_w({first_w, last_w}); break;
    case 1:
      add_w({first_w, p.kernel_w - 1});
      add_w({0, last_w});
      break;
    default: add_w({0, p.kernel_w - 1});
  }
  block.h_base = low_h;
  block.w_base = weight_floor_div(low_w, alignment) * alignment;
  block.first_plane_h = static_cast<std::int32_t>(plane_h.low);
  block.first_plane_w = static_cast<std::int32_t>(plane_w.low);
  all.span_h = std::max<std::int64_t>(all.span_h, high_h - low_h);
  all.span_w = std::max<std::int64_t>(all.span_w, high_w - block.w_base);
  all.planes_h = std::max(all.planes_h, plane_h.high - plane_h.low + 1);
  all.planes_w = std::max(all.planes_w, plane_w.high - plane_w.low + 1);
  return block;
}

/// Elements of a channel and an image; above the limit if too large to compute exactly.
std::int64_t stage_elements(std::int64_t planes_h, std::int64_t planes_w, std::int64_t rows, std::int64_t cols) {
  if (rows > kMostStageElements || cols > kMostStageElements) return kMostStageElements + 1;
  return planes_h * planes_w * rows * cols;
}

}  // namespace

std::int32_t row_alignment(const WeightPlan& p) {
  if (p.boxes) return std::max(1 << p.log2_box_w, 4 * p.unit_elements);
  if (p.stride_w == 1) return 4 * p.unit_elements;
  return p.unit_elements == 2 && p.stride_w == 2 ? 4 : p.unit_elements;
}

bool supported(const ConvGeometry& g) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (g.image.in_plane(axis) >= kMaxExtent || g.feature.in_plane(axis) >= kMaxExtent ||
        g.padding.in_plane(axis) >= kMaxExtent)
      return false;
    if (g.kernel.in_plane(axis) >= kMaxExtent || g.stride.in_plane(axis) > 64 ||
        g.dilation.in_plane(axis) >= kMaxExtent)
      return false;
    if (g.dilation.in_plane(axis) * g.kernel.in_plane(axis) >= kMaxExtent) return false;
  }
  return g.image_plane() < kMaxPlane && g.feature_plane() < kMaxPlane && g.image_channels < kMaxExtent &&
         g.feature_channels < kMaxExtent && g.batch < kMaxExtent && g.filter_numel() > 0 &&
         g.filter_numel() < kMaxPlane;
}

void set_geometry(const ConvGeometry& g, int unit_elements, WeightPlan& p) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  p = {};
  p.groups = narrow(g.groups);
  p.batch = g.batch;
  p.unit_elements = unit_elements;
  p.row_taps = p.residues = 1;
  p.image_channels = narrow(g.image_channels_per_group());
  p.feature_channels = narrow(g.feature_channels_per_group());
  p.image_h = narrow(g.image.h);
  p.image_w = narrow(g.image.w);
  p.feature_h = narrow(g.feature.h);
  p.feature_w = narrow(g.feature.w);
  p.kernel_h = narrow(g.kernel.h);
  p.kernel_w = narrow(g.kernel.w);
  p.stride_h = narrow(g.stride.h);
  p.stride_w = narrow(g.stride.w);
  p.padding_h = narrow(g.padding.h);
  p.padding_w = narrow(g.padding.w);
  p.dilation_h = narrow(g.dilation.h);
  p.dilation_w = narrow(g.dilation.w);
}

void set_tile(WeightPlan& p, int log2_tile_n, int log2_tile_h, int log2_tile_w) {
  p.log2_tile_n = log2_tile_n;
  p.log2_tile_h = log2_tile_h;
  p.log2_tile_w = log2_tile_w;
  p.tiles_n = static_cast<std::int32_t>(ceil_div(p.batch, std::int64_t{1} << log2_tile_n));
  p.tiles_h = static_cast<std::int32_t>(ceil_div(p.feature_h, std::int64_t{1} << log2_tile_h));
  p.tiles_w = static_cast<std::int32_t>(ceil_div(p.feature_w, std::int64_t{1} << log2_tile_w));
  p.stages = std::int64_t{p.tiles_n} * p.tiles_h * p.tiles_w;
}

const TapBlocks& TapBlockSizes::find(const WeightPlan& p, std::int32_t taps_per_block, std::int32_t alignment) {
  const auto [place, is_new] = sizes_.try_emplace(std::pair(taps_per_block, alignment));
  TapBlocks& all = place->second;
  if (!is_new) return all;
  const std::int32_t taps = p.kernel_h * p.kernel_w;
  for (std::int32_t first = 0; first < taps && all.fits; first += taps_per_block) {
    const WeightTapBlock block = tap_block(p, first, taps_per_block, alignment, all);
    if (first == 0) all.first = block;
    ++all.count;
    // Checked block by block, because with wide strides the first block alone often exceeds the limit.
    all.fits = all.count <= kMaxTapBlocks &&
               stage_elements(all.planes_h, all.planes_w, all.span_h + 1, all.span_w + 1) <= kMostStageElements;
  }
  return all;
}

bool build_tap_blocks(WeightPlan& p, std::int32_t taps_per_block, TapBlockSizes& sizes) {
  const std::int32_t alignment = row_alignment(p);
  const TapBlocks& all = sizes.find(p, taps_per_block, alignment);
  if (!all.fits) return false;
  const std::int64_t rows = all.span_h + (std::int64_t{1} << p.log2_tile_h);
  // A half's odd offset reads one unit further.
  const std::int64_t read = all.span_w + (std::int64_t{1} << p.log2_tile_w) + p.unit_elements - 1;
  const std::int64_t cols = ceil_div(read, alignment) * alignment;
  const std::int64_t image = stage_elements(all.planes_h, all.planes_w, rows, cols);
  if (image << p.log2_tile_n > kMostStageElements) return false;
  p.tap_blocks = all.count;
  p.tap_block[0] = all.first;
  p.rows = static_cast<std::int32_t>(rows);
  p.cols = static_cast<std::int32_t>(cols);
  p.planes_h = static_cast<std::int32_t>(all.planes_h);
  p.planes_w = static_cast<std::int32_t>(all.planes_w);
  p.image_pitch = static_cast<std::int32_t>(pitch_of(image << p.log2_tile_n, p.unit_elements));
  return true;
}

void set_tap_blocks(WeightPlan& p) {
  TapBlocks all;
  const std::int32_t taps_per_block = p.tap_block[0].taps, alignment = row_alignment(p);
  for (std::int32_t b = 1; b < p.tap_blocks; ++b) {
    p.tap_block[b] = tap_block(p, b * taps_per_block, taps_per_block, alignment, all);
  }
}

void set_splits(WeightPlan& p, std::int64_t splits) {
  const std::int64_t bytes = p.blocks_per_split() * p.tile_rows * p.tile_columns * 4;
  splits = std::max<std::int64_t>(std::min(splits, kMaxWorkspace / bytes), 1);
  p.stages_per_split = std::max<std::int64_t>(ceil_div(p.stages, splits), 1);
  p.splits = static_cast<std::int32_t>(std::max<std::int64_t>(ceil_div(p.stages, p.stages_per_split), 1));
}

}  // namespace weight_parts
}  // namespace adjoint::cuda

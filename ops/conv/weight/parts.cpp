#include <adjoint/ops/conv/weight/parts.h>

#include <algorithm>

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

/// Taps of an axis, from and to.
struct Run {
  std::int32_t first, last;
};

/// Of what a run's taps leave when `stride` divides where they read. Residues repeat after as many taps.
void add_residues(const Run& run, std::int32_t stride, std::int32_t dilation, std::int32_t padding, Range& residues) {
  const std::int32_t last = std::min(run.last, run.first + stride - 1);
  const std::int64_t first_at = std::int64_t{run.first} * dilation - padding, step = dilation % stride;
  std::int64_t residue = first_at - std::int64_t{weight_floor_div(first_at, stride)} * stride;
  for (std::int32_t tap = run.first; tap <= last; ++tap) {
    residues.add(residue);
    residue += step;
    if (residue >= stride) residue -= stride;
  }
}

}  // namespace

TapSpan tap_span(const WeightPlan& p, const WeightTapBlock& block) {
  const std::int32_t last = block.first_tap + block.taps - 1;
  const std::int32_t first_h = block.first_tap / p.kernel_w, last_h = last / p.kernel_w;
  const std::int32_t first_w = first_h == last_h ? block.first_tap % p.kernel_w : 0;
  const std::int32_t last_w = first_h == last_h ? last % p.kernel_w : p.kernel_w - 1;
  const auto at_h = [&](std::int32_t tap) { return std::int64_t{tap} * p.dilation_h - p.padding_h; };
  const auto at_w = [&](std::int32_t tap) { return std::int64_t{tap} * p.dilation_w - p.padding_w; };
  return {{at_h(first_h), at_h(last_h)}, {at_w(first_w), at_w(last_w)}};
}

bool supported(const ConvGeometry& g) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (g.image[axis] >= kMaxExtent || g.feature[axis] >= kMaxExtent || g.padding[axis] >= kMaxExtent) return false;
    if (g.kernel[axis] >= kMaxExtent || g.stride[axis] > 64 || g.dilation[axis] >= kMaxExtent) return false;
    if (g.dilation[axis] * g.kernel[axis] >= kMaxExtent) return false;
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

void set_tile(WeightPlan& p, int log2_tile_n, int log2_tile_h, int log2_tile_w) {
  p.log2_tile_n = log2_tile_n;
  p.log2_tile_h = log2_tile_h;
  p.log2_tile_w = log2_tile_w;
  p.tiles_n = static_cast<std::int32_t>(ceil_div(p.batch, std::int64_t{1} << log2_tile_n));
  p.tiles_h = static_cast<std::int32_t>(ceil_div(p.feature_h, std::int64_t{1} << log2_tile_h));
  p.tiles_w = static_cast<std::int32_t>(ceil_div(p.feature_w, std::int64_t{1} << log2_tile_w));
  p.stages = std::int64_t{p.tiles_n} * p.tiles_h * p.tiles_w;
}

bool build_tap_blocks(WeightPlan& p, std::int32_t taps_per_block) {
  const std::int32_t taps = p.kernel_h * p.kernel_w;
  p.tap_blocks = static_cast<std::int32_t>(ceil_div(taps, taps_per_block));
  if (p.tap_blocks > kMaxTapBlocks) return false;
  // Of a row's first element: what is copied 16 bytes at a time begins there, in each of the stride's planes.
  const std::int32_t alignment = p.stride_w == 1                           ? 4 * p.unit_elements
                                 : p.unit_elements == 2 && p.stride_w == 2 ? 4
                                                                           : p.unit_elements;
  std::int64_t rows = 1, cols = 1, planes_h = 1, planes_w = 1;
  constexpr std::int64_t kMostElements = 1 << 16;
  // Asked for block by block, for the first one alone often exceeds it where strides are wide.
  const auto fits = [&] {
    return rows <= kMostElements && cols <= kMostElements &&
           planes_h * planes_w * rows * cols << p.log2_tile_n <= kMostElements;
  };
  for (std::int32_t b = 0; b < p.tap_blocks; ++b) {
    WeightTapBlock& block = p.tap_block[b];
    block.first_tap = b * taps_per_block;
    block.taps = std::min(taps_per_block, taps - block.first_tap);
    const TapSpan at = tap_span(p, block);
    const std::int32_t low_h = weight_floor_div(at.h.low, p.stride_h), high_h = weight_floor_div(at.h.high, p.stride_h);
    const std::int32_t low_w = weight_floor_div(at.w.low, p.stride_w), high_w = weight_floor_div(at.w.high, p.stride_w);
    Range plane_h, plane_w;
    const std::int32_t last = block.first_tap + block.taps - 1;
    const Run run_h{block.first_tap / p.kernel_w, last / p.kernel_w};
    const std::int32_t first_w = block.first_tap % p.kernel_w, last_w = last % p.kernel_w;
    add_residues(run_h, p.stride_h, p.dilation_h, p.padding_h, plane_h);
    const auto add_w = [&](const Run& run) { add_residues(run, p.stride_w, p.dilation_w, p.padding_w, plane_w); };
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
    rows = std::max(rows, high_h - low_h + (std::int64_t{1} << p.log2_tile_h));
    cols = std::max(cols, high_w - block.w_base + (std::int64_t{1} << p.log2_tile_w));
    planes_h = std::max(planes_h, plane_h.high - plane_h.low + 1);
    planes_w = std::max(planes_w, plane_w.high - plane_w.low + 1);
    if (!fits()) return false;
  }
  cols = ceil_div(cols + (p.unit_elements - 1), alignment) * alignment;  // a half's odd offset reads one unit further
  if (!fits()) return false;
  const std::int64_t stage = planes_h * planes_w * rows * cols << p.log2_tile_n;
  p.rows = static_cast<std::int32_t>(rows);
  p.cols = static_cast<std::int32_t>(cols);
  p.planes_h = static_cast<std::int32_t>(planes_h);
  p.planes_w = static_cast<std::int32_t>(planes_w);
  p.image_pitch = static_cast<std::int32_t>(pitch_of(stage, p.unit_elements));
  return true;
}

void set_splits(WeightPlan& p, std::int64_t splits) {
  const std::int64_t bytes = p.blocks_per_split() * p.tile_rows * p.tile_columns * 4;
  splits = std::max<std::int64_t>(std::min(splits, kMaxWorkspace / bytes), 1);
  p.stages_per_split = std::max<std::int64_t>(ceil_div(p.stages, splits), 1);
  p.splits = static_cast<std::int32_t>(std::max<std::int64_t>(ceil_div(p.stages, p.stages_per_split), 1));
}

}  // namespace weight_parts
}  // namespace adjoint::cuda

#include <adjoint/ops/conv/layouts/orders.h>

#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

namespace adjoint::cuda {
namespace {

/// Rows of blocks that begin at multiples of 16 bytes are read and written faster.
std::int64_t padded(std::int64_t elements, std::int64_t element_size) {
  const std::int64_t vector = 16 / element_size;
  return ceil_div(elements, vector) * vector;
}

/// Elements of a tile, at most. If threads split vectors, larger tiles let a thread do more work after one start, while
/// there are enough tiles.
std::int64_t tile_elements(std::int64_t element_size, bool is_result, const Unshuffle& u) {
  constexpr std::int64_t kLarge = kUnshuffleBytes / 2, kLargeTilesWanted = 1024;
  const bool large = element_size == 2 && !is_result && u.blocks[1] % (16 / element_size) == 0 &&
                     u.numel() >= kLarge * kLargeTilesWanted;
  return large ? kLarge : kUnshuffleTile;
}

/// Chooses the tiles: whole rows if possible, then many of them, then many residues; and several planes, unless the
/// operand may be a result, whose parts are joined.
void set_tiles(std::int64_t element_size, bool is_result, Unshuffle& u) {
  constexpr std::int64_t kSide = 64;  // rows of a tile whose rows are one stride long
  u.vector = 1;
  const bool one_block = u.blocks[1] == 1 && u.blocks[0] > 1;
  const std::int64_t vector = 16 / element_size, most = tile_elements(element_size, is_result, u);
  u.tile_residues[1] = one_block ? std::min(u.residues[1], kSide) : u.residues[1];
  u.tile_blocks[1] = std::min(u.blocks[1], most / u.stride[1]);
  if (one_block) u.tile_blocks[1] = 1;
  if (u.blocks[1] % vector == 0 && u.tile_blocks[1] >= vector) {
    u.vector = static_cast<std::int32_t>(vector);
    u.tile_blocks[1] -= u.tile_blocks[1] % vector;
  }
  const std::int64_t row = one_block ? u.tile_residues[1] : u.tile_blocks[1] * u.stride[1];
  u.tile_blocks[0] = std::min(u.blocks[0], one_block ? kSide : most / row);
  u.tile_residues[0] = 1;
  if (!one_block) u.tile_blocks[0] = ceil_div(u.blocks[0], ceil_div(u.blocks[0], u.tile_blocks[0]));  // all tiles alike
  if (u.tile_blocks[0] == u.blocks[0]) u.tile_residues[0] = std::min(u.residues[0], most / (row * u.tile_blocks[0]));
  u.tile_planes = 1;
  if (!is_result && u.vector > 1 && u.has_whole_planes()) {
    constexpr std::int64_t kTilesWanted = 1024;
    const std::int64_t plane = row * u.tile_residues[0] * u.tile_blocks[0];
    u.tile_planes = std::max<std::int64_t>(std::min(most / plane, u.planes / kTilesWanted), 1);
  }
  // Lanes that share a row: all, if there are few rows, but no more than the row has elements.
  const std::int64_t plane_rows = u.tile_residues[0] * u.tile_blocks[0];
  u.log2_lanes = 8;
  while (u.log2_lanes > 5 && (kUnshuffleThreads >> u.log2_lanes) < plane_rows) --u.log2_lanes;
  while (u.log2_lanes > 0 && (1 << (u.log2_lanes - 1)) >= row) --u.log2_lanes;
  const auto divider = [](std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  for (const std::size_t axis : {0U, 1U}) {
    u.residue_tiles[axis] = divider(ceil_div(u.residues[axis], u.tile_residues[axis]));
    u.block_tiles[axis] = divider(ceil_div(u.blocks[axis], u.tile_blocks[axis]));
  }
  u.row = divider(row);
  u.rows = divider(u.tile_residues[0]);
  u.plane_rows = divider(plane_rows);
  u.row_vectors = divider(ceil_div(std::min(row, u.extents[1]) - 1, vector) + 1);
  u.columns = divider(u.stride[1]);
  u.vectors_w = divider(u.tile_blocks[1] / u.vector);
  u.blocks_h = divider(u.tile_blocks[0]);
  u.residues_w = divider(u.tile_residues[1]);
}

/// Pads rows to whole vectors; rows shorter than the lines of positions that the copy engine brings are padded to
/// divide such a line, and planes, or rows, to fill at least one, if that is worth the zeros.
Extent2 padded_feature(const ConvGeometry& g, std::int64_t element_size) {
  const std::int64_t line = 128 / element_size, vector = 16 / element_size;
  Extent2 to{g.feature.h, padded(g.feature.w, element_size)};
  if (to[1] >= line) return to;
  to[1] = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(to[1])));
  if (to[0] * to[1] >= line) return to;
  const Extent2 whole = to[0] == 1 ? Extent2{1, line} : Extent2{line / to[1], to[1]};
  const std::int64_t most = g.feature.w < vector ? 4 : 2;
  return whole[0] * whole[1] <= most * g.feature_plane() ? whole : to;
}

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;

/// True if samples may be the innermost axis.
bool takes_samples_last(const ConvGeometry& g) {
  return g.batch > 0 && g.batch < kMaxExtent && g.image_channels * g.image_plane() < kMaxExtent &&
         g.feature_channels * g.feature_plane() < kMaxExtent;
}

/// For planes that are separated as in `apart`; unchanged planes of a sample are moved together.
SamplesLast samples_last(const ConvGeometry& g, std::int64_t channels, const Unshuffle& apart,
                         std::int64_t element_size) {
  SamplesLast s{.samples = g.batch,
                .padded_samples = padded(g.batch, element_size),
                .channels = channels,
                .extents = apart.extents,
                .padding = apart.padding,
                .stride = apart.stride,
                .residues = apart.residues,
                .blocks = apart.blocks};
  if (s.stride == Extent2{1, 1}) {
    s.extents = s.blocks = {1, channels * apart.extents[0] * apart.extents[1]};
    s.channels = 1;
  }
  const auto divider = [](std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  while (s.log2_tile_samples > 3 && std::int64_t{1} << (s.log2_tile_samples - 1) >= s.padded_samples)
    --s.log2_tile_samples;
  s.position_tiles = divider(ceil_div(s.positions(), std::int64_t{kSamplesTile} >> s.log2_tile_samples));
  s.channel_count = divider(s.channels);
  s.blocks_w = divider(s.blocks[1]);
  s.blocks_h = divider(s.blocks[0]);
  s.residues_w = divider(s.residues[1]);
  return s;
}

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

/// True if threads can count its tiles in 32 bits.
bool is_small(const SamplesLast& move) { return move.tiles() <= kMaxCount; }

/// True if threads can count its tiles, and the elements from a tile's first to its last in the planes, in 32 bits.
bool is_small(const Unshuffle& u) {
  const std::int64_t rows =
      (u.tile_planes - 1) * u.extents[0] + (u.tile_blocks[0] - 1) * u.stride[0] + u.tile_residues[0];
  return u.tiles() <= kMaxCount && (u.vector == 1 || rows <= kMaxCount / 2 / std::max<std::int64_t>(u.extents[1], 1));
}

/// Planes with zeros below and to the right.
Unshuffle pad_planes(std::int64_t planes, const Extent2& extents, const Extent2& to, std::int64_t element_size) {
  Unshuffle u{.planes = planes, .extents = extents, .blocks = to};
  if (extents[0] == to[0] && u.planes * to[0] < kMaxExtent) {  // treats all rows as one plane's
    u.extents[0] = u.blocks[0] = u.planes * to[0];
    u.planes = 1;
  }
  set_tiles(element_size, false, u);
  return u;
}

bool has_strides_for_channels(const ConvGeometry& g, bool image_is_result) {
  constexpr std::int64_t kMaxStride = 1024;
  if (g.batch == 0) return false;
  bool strided = false;
  for (const std::size_t axis : {0U, 1U}) {
    const std::int64_t stride = g.stride.in_plane(axis), kernel = g.kernel.in_plane(axis);
    if (g.image.in_plane(axis) >= kMaxExtent || g.feature.in_plane(axis) >= kMaxExtent || kernel >= kMaxExtent)
      return false;
    if (g.padding.in_plane(axis) >= kMaxExtent || stride > kMaxStride) return false;
    if (stride == 1) continue;
    strided = true;
    if (kernel > 1 && g.dilation.in_plane(axis) > 1) return false;
    if (image_is_result && kernel < stride) return false;  // residues without a tap would have to be written, too
  }
  return strided;
}

}  // namespace

bool plan_strides_as_channels(const ConvGeometry& g, bool image_is_result, std::int64_t element_size,
                              RearrangedPlan& plan) {
  if (!has_strides_for_channels(g, image_is_result)) return false;
  plan = {.geometry = g};
  Unshuffle image{.planes = g.batch * g.image_channels, .extents = g.image.plane()};
  Unshuffle filter{.planes = g.filter_numel() / g.taps(), .extents = g.kernel.plane()};
  for (const std::size_t axis : {0U, 1U}) {
    const std::int64_t stride = g.stride.in_plane(axis), kernel = g.kernel.in_plane(axis);
    std::int64_t blocks = g.image.in_plane(axis), taps = kernel, residues = 1;
    if (stride > 1) {
      residues = std::min(kernel, stride);
      taps = ceil_div(kernel, stride);
      blocks = g.feature.in_plane(axis) + taps - 1;
      if (image_is_result)
        blocks = std::max(blocks, ceil_div(g.image.in_plane(axis) + g.padding.in_plane(axis), stride));
      image.padding[axis] = g.padding.in_plane(axis);
      plan.geometry.padding.in_plane(axis) = 0;
    }
    image.stride[axis] = filter.stride[axis] = stride;
    image.residues[axis] = filter.residues[axis] = residues;
    image.blocks[axis] = blocks;
    filter.blocks[axis] = plan.geometry.kernel.in_plane(axis) = taps;
    plan.geometry.stride.in_plane(axis) = 1;
  }
  // Planes that are rows (planes_as_rows()) need no padding.
  if (plan.geometry.kernel != Extent2{1, 1}) image.blocks[1] = padded(image.blocks[1], element_size);
  plan.geometry.image = image.blocks;
  plan.bias_repetitions = image.residues[0] * image.residues[1];
  plan.geometry.image_channels *= plan.bias_repetitions;
  set_tiles(element_size, image_is_result, image);
  set_tiles(element_size, true, filter);
  plan.image = image;
  // With one block each, the taps keep their order.
  if (filter.blocks != Extent2{1, 1}) plan.filter = filter;
  return is_small(image) && is_small(filter);
}

bool pad_image_rows(const ConvGeometry& g, std::int64_t element_size, RearrangedPlan& plan) {
  plan = {.geometry = g};
  Extents& image = plan.geometry.image;
  image.w = padded(image.w, element_size);
  if (image == g.image || g.batch == 0) return false;
  plan.image = pad_planes(g.batch * g.image_channels, g.image.plane(), image.plane(), element_size);
  return is_small(plan.image);
}

bool pad_rows(const ConvGeometry& g, std::int64_t element_size, RearrangedPlan& plan) {
  if (g.batch == 0) return false;
  ConvGeometry& inner = plan.geometry;
  const Extent2 feature = padded_feature(inner, element_size);
  // One tap at stride 1 reads its own position, and both operands stay alike.
  const bool alike = inner.image == inner.feature && inner.kernel == Extent2{1, 1} && inner.stride == Extent2{1, 1};
  const Extent2 image = alike ? feature : Extent2{inner.image.h, padded(inner.image.w, element_size)};
  if (feature == inner.feature && image == inner.image) return false;
  if (plan.image.planes != 0) {
    plan.image.blocks = image;
    set_tiles(element_size, false, plan.image);
  } else if (image != inner.image) {
    plan.image = pad_planes(g.batch * g.image_channels, g.image.plane(), image, element_size);
  }
  if (feature != inner.feature)
    plan.feature = pad_planes(g.batch * g.feature_channels, g.feature.plane(), feature, element_size);
  inner.image = image;
  inner.feature = feature;
  return is_small(plan.image) && is_small(plan.feature);
}

bool plan_batch_as_columns(const ConvGeometry& g, std::int64_t element_size, RearrangedPlan& plan) {
  plan = {.geometry = g};
  if (!takes_samples_last(g)) return false;
  const bool is_row = g.image.h == 1 && g.feature.h == 1 && g.kernel.h == 1 && g.padding.h == 0;
  ConvGeometry& inner = plan.geometry;
  Unshuffle apart{.extents = g.image.plane(), .blocks = g.image.plane()};
  if (!is_row && g.stride != Extent2{1, 1}) {
    if (!plan_strides_as_channels(g, false, element_size, plan)) return false;
    apart = plan.image;
    // It is the samples that are padded.
    apart.blocks[1] = g.stride.w == 1 ? g.image.w : g.feature.w + inner.kernel.w - 1;
    inner.image = apart.blocks;
    plan.image = {};
  }
  plan.image_samples = samples_last(g, g.image_channels, apart, element_size);
  plan.feature_samples =
      samples_last(g, g.feature_channels, {.extents = g.feature.plane(), .blocks = g.feature.plane()}, element_size);
  const std::int64_t samples = plan.image_samples.padded_samples;
  inner.batch = 1;
  if (is_row) {
    inner.rank = 2;
    inner.image = {inner.image.w, samples};
    inner.feature = {inner.feature.w, samples};
    inner.kernel = {inner.kernel.w, 1};
    inner.stride = {inner.stride.w, 1};
    inner.padding = {inner.padding.w, 0};
    inner.dilation = {inner.dilation.w, 1};
  } else {
    for (std::int64_t* width : {&inner.image.w, &inner.feature.w, &inner.padding.w, &inner.dilation.w})
      *width *= samples;
  }
  return plan.image_samples.positions() < kMaxExtent && is_small(plan.image_samples) && is_small(plan.feature_samples);
}

}  // namespace adjoint::cuda

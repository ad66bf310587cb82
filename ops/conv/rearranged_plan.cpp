#include <adjoint/ops/conv/rearranged_plan.h>

#include <adjoint/ops/conv/ceil_div.h>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace adjoint::cuda {
namespace {

/// Rows of blocks that begin at multiples of 16 bytes are read and written faster.
std::int64_t padded(std::int64_t elements, std::int64_t element_size) {
  const std::int64_t vector = 16 / element_size;
  return ceil_div(elements, vector) * vector;
}

/// Chooses the tiles: whole rows if they can be, then many of them, then many residues.
void set_tiles(std::int64_t element_size, Unshuffle& u) {
  constexpr std::int64_t kSide = 64;  // of a tile of rows that are one stride long
  const bool one_block = u.blocks[1] == 1 && u.blocks[0] > 1;
  const std::int64_t vector = 16 / element_size;
  u.tile_residues[1] = one_block ? std::min(u.residues[1], kSide) : u.residues[1];
  u.tile_blocks[1] = std::min(u.blocks[1], kUnshuffleTile / u.stride[1]);
  if (one_block) u.tile_blocks[1] = 1;
  if (u.blocks[1] % vector == 0 && u.tile_blocks[1] >= vector) {
    u.vector = static_cast<std::int32_t>(vector);
    u.tile_blocks[1] -= u.tile_blocks[1] % vector;
  }
  const std::int64_t row = one_block ? u.tile_residues[1] : u.tile_blocks[1] * u.stride[1];
  u.tile_blocks[0] = std::min(u.blocks[0], one_block ? kSide : kUnshuffleTile / row);
  u.tile_residues[0] = 1;
  if (u.tile_blocks[0] == u.blocks[0])
    u.tile_residues[0] = std::min(u.residues[0], kUnshuffleTile / (row * u.tile_blocks[0]));
  while (u.log2_lanes > 0 && (1 << (u.log2_lanes - 1)) >= row) --u.log2_lanes;
  const auto divider = [](std::int64_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  for (const std::size_t axis : {0U, 1U}) {
    u.residue_tiles[axis] = divider(ceil_div(u.residues[axis], u.tile_residues[axis]));
    u.block_tiles[axis] = divider(ceil_div(u.blocks[axis], u.tile_blocks[axis]));
  }
  u.row = divider(row);
  u.rows = divider(u.tile_residues[0]);
  u.vectors_w = divider(u.tile_blocks[1] / u.vector);
  u.blocks_h = divider(u.tile_blocks[0]);
  u.residues_w = divider(u.tile_residues[1]);
}

/// Whether threads may count its tiles.
bool is_small(const Unshuffle& u) { return u.tiles() <= std::numeric_limits<std::int32_t>::max(); }

bool has_strides_for_channels(const ConvGeometry& g, bool image_is_result) {
  constexpr std::int64_t kMaxStride = 1024, kMaxExtent = std::int64_t{1} << 28;
  bool strided = false;
  for (const std::size_t axis : {0U, 1U}) {
    const std::int64_t stride = g.stride[axis], kernel = g.kernel[axis];
    if (g.image[axis] >= kMaxExtent || g.feature[axis] >= kMaxExtent || kernel >= kMaxExtent) return false;
    if (g.padding[axis] >= kMaxExtent || stride > kMaxStride) return false;
    if (stride == 1) continue;
    strided = true;
    if (kernel > 1 && g.dilation[axis] > 1) return false;
    if (image_is_result && kernel < stride) return false;  // residues without a tap would have to be written as well
  }
  return strided;
}

}  // namespace

bool plan_strides_as_channels(const ConvGeometry& g, bool image_is_result, std::int64_t element_size,
                              RearrangedPlan& plan) {
  if (!has_strides_for_channels(g, image_is_result)) return false;
  plan = {.geometry = g};
  Unshuffle image{.planes = g.batch * g.image_channels, .extents = g.image};
  Unshuffle filter{.planes = g.filter_numel() / g.taps(), .extents = g.kernel};
  for (const std::size_t axis : {0U, 1U}) {
    const std::int64_t stride = g.stride[axis], kernel = g.kernel[axis];
    std::int64_t blocks = g.image[axis], taps = kernel, residues = 1;
    if (stride > 1) {
      residues = std::min(kernel, stride);
      taps = ceil_div(kernel, stride);
      blocks = g.feature[axis] + taps - 1;
      if (image_is_result) blocks = std::max(blocks, ceil_div(g.image[axis] + g.padding[axis], stride));
      image.padding[axis] = g.padding[axis];
      plan.geometry.padding[axis] = 0;
    }
    image.stride[axis] = filter.stride[axis] = stride;
    image.residues[axis] = filter.residues[axis] = residues;
    image.blocks[axis] = blocks;
    filter.blocks[axis] = plan.geometry.kernel[axis] = taps;
    plan.geometry.stride[axis] = 1;
  }
  // Planes that are rows (planes_as_rows()) need no padding.
  if (plan.geometry.kernel != Extent2{1, 1}) image.blocks[1] = padded(image.blocks[1], element_size);
  plan.geometry.image = image.blocks;
  plan.bias_repetitions = image.residues[0] * image.residues[1];
  plan.geometry.image_channels *= plan.bias_repetitions;
  set_tiles(element_size, image);
  set_tiles(element_size, filter);
  plan.image = image;
  // Of one block each, taps are in the order that they were in.
  if (filter.blocks != Extent2{1, 1}) plan.filter = filter;
  return is_small(image) && is_small(filter);
}

bool plan_batch_as_rows(const ConvGeometry& g, std::int64_t element_size, RearrangedPlan& plan) {
  constexpr Extent2 kOne{1, 1};
  if (g.image != kOne || g.feature != kOne || g.kernel != kOne || g.padding != Extent2{0, 0}) return false;
  constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;
  if (g.batch < 2 || g.batch >= kMaxExtent || std::max(g.image_channels, g.feature_channels) >= kMaxExtent)
    return false;
  plan = {.geometry = g};
  plan.geometry.batch = 1;
  plan.geometry.image = plan.geometry.feature = {1, padded(g.batch, element_size)};
  plan.geometry.stride = plan.geometry.dilation = kOne;
  const auto channels_first = [&](std::int64_t channels) {
    Unshuffle u{.planes = 1, .extents = {g.batch, channels}, .stride = {1, channels}};
    u.residues = {1, channels};
    u.blocks = {plan.geometry.image[1], 1};
    set_tiles(element_size, u);
    return u;
  };
  plan.image = channels_first(g.image_channels);
  plan.feature = channels_first(g.feature_channels);
  return is_small(plan.image) && is_small(plan.feature);
}

}  // namespace adjoint::cuda

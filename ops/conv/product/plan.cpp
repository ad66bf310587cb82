#include <adjoint/ops/conv/product/plan.h>

#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/base/rows_aligned.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMostExtent = std::numeric_limits<std::int32_t>::max() / 2;
constexpr std::int64_t kVectorBytes = 16;

/// A matrix of samples, groups and `inner` lines of `width` elements.
ProductMatrix lines_of(std::int64_t samples, std::int64_t groups, std::int64_t inner, std::int64_t width,
                       std::int64_t pitch) {
  return {.lines = samples * groups * inner,
          .width = width,
          .pitch = pitch,
          .extents = {width, inner, groups, samples},
          .strides = {1, pitch, inner * pitch, groups * inner * pitch}};
}

/// The same where a group of a sample is one line and samples are the second axis.
ProductMatrix samples_of(std::int64_t samples, std::int64_t groups, std::int64_t width, std::int64_t pitch) {
  ProductMatrix matrix = lines_of(samples, groups, 1, width, pitch);
  std::swap(matrix.extents[1], matrix.extents[3]);
  std::swap(matrix.strides[1], matrix.strides[3]);
  return matrix;
}

bool fits(const ProductMatrix& matrix) {
  // A line's last element must be countable in 31 bits, and strides must suit the driver.
  return std::max({matrix.extents[0], matrix.extents[1], matrix.extents[2], matrix.extents[3]}) < kMostExtent &&
         matrix.strides[3] < std::int64_t{1} << 38;
}

/// Limits of the number of slices: at most as many as fill the multiprocessors once, with at least four stages each.
/// Tensor cores round towards zero, so long sums are kept short: sums of more than kMostStages are always sliced if the
/// slices' sums need little memory.
struct SliceLimits {
  std::int64_t least, most;
};

SliceLimits slice_limits(const ProductPlan& p, const Machine& machine) {
  constexpr std::int64_t kLeastStages = 4, kMostStages = 512, kMostBytes = std::int64_t{256} << 20;
  const std::int64_t tiles = std::int64_t{p.groups} * p.row_tiles * p.column_tiles();
  const std::int64_t affordable = kMostBytes / (std::int64_t{sizeof(float)} * p.result.lines * p.result.width);
  const std::int64_t to_fill = std::min(machine.multiprocessors / tiles, p.stages / kLeastStages);
  const std::int64_t least = std::max<std::int64_t>(std::min(ceil_div(p.stages, kMostStages), affordable), 1);
  return {least, std::max(to_fill, least)};
}

/// Divides shared memory: rows stay if a block uses them for several tiles and there is room; otherwise there are rings
/// of equal length.
void share_smem(ProductPlan& p, const Machine& machine) {
  const std::int32_t left = static_cast<std::int32_t>(machine.smem_bytes) - kProductTableBytes;
  const std::int32_t row_bytes = p.row_slot_bytes(), column_bytes = p.column_slot_bytes();
  const std::int32_t least_slots = (64 << 10) / column_bytes;  // in flight
  const std::int32_t most_buffers = p.columns_from_registers ? 0 : kProductTeams;
  // The number of blocks is then a multiple of the number of units, which should leave few multiprocessors idle.
  const std::int32_t units = p.units(), together = machine.multiprocessors;
  p.rows_stay = p.slice_stages <= kMostProductSlots && p.tiles() > together && units <= together &&
                together % units * 8 <= together;
  p.row_slots = p.slice_stages;
  for (p.out_buffers = most_buffers; p.rows_stay && p.out_buffers >= std::min(most_buffers, 1); --p.out_buffers) {
    const std::int32_t room = left - p.row_slots * row_bytes - p.out_buffers * kProductOutBytes;
    p.column_slots = std::min(room / column_bytes, kMostProductSlots);
    if (p.column_slots >= least_slots) return;
  }
  p.rows_stay = false;
  p.out_buffers = most_buffers;
  const std::int32_t room = left - p.out_buffers * kProductOutBytes;
  p.row_slots = p.column_slots = std::min(room / (row_bytes + column_bytes), kMostProductSlots);
}

/// Clocks of a stage's products, including those whose sums are not stored.
double stage_clocks(const ProductPlan& p) {
  return static_cast<double>(p.tile_row_blocks * kProductBlock) * (p.tile_column_blocks * p.column_block) / 32;
}

/// Chooses slices and the division of shared memory; if positions come from registers, the tile too. False if all
/// choices are passed over (PlansAbove).
bool divide(ProductPlan& p, const Machine& machine) {
  LeastClocks least;
  const std::int32_t least_blocks = p.columns_from_registers ? p.tile_column_blocks / 2 : p.tile_column_blocks;
  ProductPlan candidate = p;
  for (; candidate.tile_column_blocks >= least_blocks; candidate.tile_column_blocks /= 2) {
    const SliceLimits limits = slice_limits(candidate, machine);
    for (std::int64_t slices = limits.least; slices <= limits.most; ++slices) {
      candidate.slice_stages = static_cast<std::int32_t>(ceil_div(p.stages, slices));
      candidate.slices = static_cast<std::int32_t>(ceil_div(p.stages, candidate.slice_stages));
      share_smem(candidate, machine);
      if (least.take(product_clocks(candidate, machine))) p = candidate;
    }
  }
  return least.found();
}

}  // namespace

double product_clocks(const ProductPlan& p, const Machine& machine) {
  constexpr double kLaunch = 5000;
  const double bytes = p.column_slot_bytes() + (p.rows_stay ? 0 : p.row_slot_bytes());
  const double waves = std::ceil(static_cast<double>(p.tiles()) / machine.multiprocessors);
  const double sums = p.slices > 1 ? kLaunch + static_cast<double>(p.partial_bytes()) * 1.5 / machine.moved_bytes : 0;
  return waves * p.slice_stages * std::max(stage_clocks(p), bytes / machine.l2_bytes) + sums;
}

bool cut_product(const ProductExtents& of, const Machine& machine, ProductPlan& p) {
  if (!fits(p.rows) || !fits(p.columns) || !fits(p.result)) return false;
  const std::int64_t column_blocks = ceil_div(of.columns, p.column_block),
                     depth_blocks = ceil_div(of.depth, p.depth_block);
  const bool few_rows = !p.columns_from_registers && of.rows <= kProductBlock && of.column_samples * column_blocks > 2;
  p.tile_row_blocks = few_rows ? 1 : 2;
  p.tile_column_blocks = p.columns_from_registers ? 8 : few_rows ? 4 : 2;
  const std::int64_t row_tiles = ceil_div(of.rows, p.tile_row_blocks * kProductBlock);
  if (of.groups * row_tiles * of.column_samples * column_blocks >= kMostExtent ||
      of.depth_samples * depth_blocks >= kMostExtent / kProductBlock)
    return false;
  p.groups = static_cast<std::int32_t>(of.groups);
  p.row_blocks = static_cast<std::int32_t>(ceil_div(of.rows, kProductBlock));
  p.row_tiles = static_cast<std::int32_t>(row_tiles);
  p.column_blocks = static_cast<std::int32_t>(column_blocks);
  p.depth_blocks = static_cast<std::int32_t>(depth_blocks);
  p.all_column_blocks = static_cast<std::int32_t>(of.column_samples * column_blocks);
  p.stages = static_cast<std::int32_t>(of.depth_samples * depth_blocks);
  if (!divide(p, machine)) return false;
  // [sample][group][slice][channel][position], or for a filter [group][slice][row][column].
  const std::int64_t lines = p.result.extents[1], width = p.result.width;
  p.partial_slice = p.rows_are_samples ? width : lines * width;
  p.partial_group = p.slices * p.partial_slice;
  p.partial_sample = of.groups * p.partial_group;
  p.partial_row = p.rows_are_samples ? p.partial_sample : width;
  const auto divider = [](std::int32_t divisor) { return Divider(static_cast<std::uint32_t>(divisor)); };
  p.units_divider = divider(p.units());
  p.slices_divider = divider(p.slices);
  p.row_tiles_divider = divider(p.row_tiles);
  p.column_blocks_divider = divider(p.column_blocks);
  p.depth_blocks_divider = divider(p.depth_blocks);
  return true;
}

bool plan_product(const ConvGeometry& g, ProductOf of, Arithmetic arithmetic, const Machine& machine, ProductPlan& p) {
  // Nothing may be empty: tensor maps have no empty axes.
  if (!is_pointwise(g) || g.batch == 0 || g.filter_numel() == 0) return false;
  p = {};
  p.element_bytes = element_bytes(arithmetic);
  p.depth_block = kProductLineBytes / p.element_bytes;
  p.column_block = kProductBlock;
  const std::int64_t plane = g.feature_plane(), images = g.image_channels_per_group(),
                     features = g.feature_channels_per_group();
  const bool by_sample = plane == 1;
  // A factor's lines begin at whole vectors; the result's lines follow each other.
  const auto whole = [&](std::int64_t width) { return -floor_to(-width, kVectorBytes / p.element_bytes); };
  const auto tensor = [&](std::int64_t channels, bool result) {
    const auto pitch = [&](std::int64_t width) { return result ? width : whole(width); };
    return by_sample ? samples_of(g.batch, g.groups, channels, pitch(channels))
                     : lines_of(g.batch, g.groups, channels, plane, pitch(plane));
  };
  const auto filter = [&](std::int64_t pitch) { return lines_of(1, g.groups, features, images, pitch); };
  const auto transpose = [&](ProductMatrix& m) {
    const std::int64_t line = m.strides[1] / m.pitch * m.width, group = m.strides[2] / m.pitch * m.width;
    m = lines_of(1, g.groups, m.width, m.extents[1], whole(m.extents[1]));
    m.source_line = line;
    m.source_group = group;
  };
  std::int64_t rows, column_samples = 1, columns, depth_samples = 1, depth;
  if (of == ProductOf::kFilter) {
    p.rows = tensor(features, false);
    p.columns = tensor(images, false);
    p.result = filter(images);
    p.rows_by_depth = p.columns_by_depth = !by_sample;
    rows = features;
    columns = images;
    depth_samples = by_sample ? 1 : g.batch;
    depth = by_sample ? g.batch : plane;
  } else {
    const bool transposed = of == ProductOf::kImage;
    depth = transposed ? features : images;
    const std::int64_t channels = transposed ? images : features;
    p.rows_are_samples = by_sample;
    p.rows = filter(whole(images));
    p.columns = tensor(depth, false);
    p.result = tensor(channels, true);
    if (by_sample) {
      std::swap(p.rows, p.columns);
      p.rows_by_depth = true;
      p.columns_by_depth = !transposed;
      rows = g.batch;
      columns = channels;
    } else {
      p.rows_by_depth = !transposed;
      rows = channels;
      column_samples = g.batch;
      columns = plane;
    }
  }
  if (unit_elements(arithmetic) == 1) {
    constexpr std::int64_t kMostGroups = 65535;  // limit of the transposing copy's grid
    if (g.groups > kMostGroups) return false;
    p.columns_from_registers = !by_sample && of != ProductOf::kFilter;
    if (p.columns_from_registers) p.column_block = kRegisterBlock;
    if (!p.rows_by_depth) transpose(p.rows);
    if (!p.columns_by_depth && !p.columns_from_registers) transpose(p.columns);
    p.rows_by_depth = true;
    p.columns_by_depth = !p.columns_from_registers;
  }
  return cut_product({g.groups, rows, column_samples, columns, depth_samples, depth}, machine, p);
}

TensorMapLayout product_layout(const ProductMatrix& m, const void* data, DType dtype, std::int32_t lines) {
  return {.data = data,
          .dtype = dtype,
          .extents = {m.extents[0], m.extents[1], m.extents[2], m.extents[3], 1},
          .strides = {1, m.strides[1], m.strides[2], m.strides[3], m.strides[3]},
          .box = {static_cast<std::int32_t>(kProductLineBytes / element_size(dtype)), lines, 1, 1, 1},
          .rounds_to_tf32 = dtype == kFloat32,
          .swizzled = true};
}

bool product_is_aligned(const ProductMatrix& m, std::int64_t element_bytes, const void* data) {
  return m.source_line == 0 && rows_aligned(data, m.width * element_bytes, kVectorBytes);
}

std::int64_t product_copy_bytes(const ProductPlan& p) {
  const auto bytes = [&p](const ProductMatrix& m) {
    return product_is_aligned(m, p.element_bytes, nullptr) ? 0 : m.lines * m.pitch * p.element_bytes;
  };
  return bytes(p.rows) + bytes(p.columns);
}

}  // namespace adjoint::cuda

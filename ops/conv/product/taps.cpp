#include <adjoint/ops/conv/product/taps.h>

#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/layouts/orders.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMostShift = std::int64_t{1} << 30;  // elements of a row by which a tap shifts the image

/// The start of a tap of an axis in the copy of the image: the residue, and the block of the first position.
struct TapPlace {
  std::int64_t residue, block;
};

TapPlace tap_place(const ConvGeometry& g, std::size_t axis, std::int64_t tap) {
  if (g.stride.in_plane(axis) > 1) return {tap % g.stride.in_plane(axis), tap / g.stride.in_plane(axis)};
  return {0, tap * g.dilation.in_plane(axis) - g.padding.in_plane(axis)};
}

/// A matrix of channels; their planes are rows of positions and samples, `residues` rows one after another.
ProductMatrix planes_of(std::int64_t channels, std::int64_t residues, std::int64_t rows, std::int64_t width) {
  return {.lines = channels * residues * rows,
          .width = width,
          .pitch = width,
          .extents = {width, channels, residues, rows},
          .strides = {1, residues * rows * width, rows * width, width}};
}

/// The time of the products, and of the kernel that puts them in order.
double clocks_behind_copies(const TapwisePlan& plan, const Machine& machine) {
  // For both kernels; for a slice, which the ones after it wait for.
  constexpr double kLaunches = 6000, kSlice = 800;
  const double results = static_cast<double>(plan.gather.count) * plan.gather.taps.divisor();
  const double bytes = static_cast<double>(plan.result_bytes()) + results * plan.product.element_bytes;
  return product_clocks(plan.product, machine) + bytes / machine.moved_bytes + kSlice * plan.product.slices + kLaunches;
}

}  // namespace

bool plan_tapwise(const ConvGeometry& g, Arithmetic arithmetic, const Machine& machine, TapwisePlan& plan) {
  plan = {};
  const std::int32_t size = element_bytes(arithmetic);
  RearrangedPlan order;
  if (g.groups != 1 || g.taps() > kMostProductTaps || g.filter_numel() == 0 || is_pointwise(g)) return false;
  if (!plan_batch_as_columns(g, size, order)) return false;
  const bool strided = g.stride != Extent2{1, 1};
  plan.image = order.image_samples;
  plan.feature = order.feature_samples;
  if (strided && plan.image.stride != g.stride) return false;  // planes of one row are not taken apart
  ProductPlan& p = plan.product;
  p.element_bytes = size;
  p.depth_block = kProductLineBytes / size;
  p.column_block = kProductBlock;
  const std::int64_t samples = plan.feature.padded_samples, width = g.feature.w * samples;
  // The copy engine would fill up features with zeros, and these would meet other positions of the image.
  if (width % p.depth_block != 0) return false;
  const Extent2 residues = strided ? plan.image.residues : Extent2{1, 1};
  const Extent2 blocks = strided ? plan.image.blocks : g.image.plane();
  for (const std::int64_t elements : {plan.image.numel(), plan.feature.numel(), g.filter_numel()}) {
    if (elements * size > kMostCopyBytes) return false;
  }
  p.rows = planes_of(g.feature_channels, 1, g.feature.h, width);
  p.columns = planes_of(g.image_channels, residues[0] * residues[1], blocks[0], blocks[1] * samples);
  const std::int64_t of_tap = g.feature_channels * g.image_channels;
  p.result = {.lines = g.taps() * g.feature_channels,
              .width = g.image_channels,
              .pitch = g.image_channels,
              .extents = {g.image_channels, g.feature_channels, 1, g.taps()},
              .strides = {1, g.image_channels, of_tap, of_tap}};
  p.rows_by_depth = p.columns_by_depth = true;
  p.taps = static_cast<std::int32_t>(g.taps());
  for (std::int32_t tap = 0; tap < p.taps; ++tap) {
    const TapPlace h = tap_place(g, 0, tap / g.kernel.w), w = tap_place(g, 1, tap % g.kernel.w);
    constexpr std::int64_t kMost = std::numeric_limits<std::int16_t>::max();
    const std::int64_t residue = h.residue * residues[1] + w.residue;
    if (std::max(std::abs(h.block), residue) > kMost || std::abs(w.block * samples) >= kMostShift) return false;
    p.tap_list[tap] = {static_cast<std::int32_t>(w.block * samples), static_cast<std::int16_t>(h.block),
                       static_cast<std::int16_t>(residue)};
  }
  if (!cut_product({.groups = 1,
                    .rows = g.feature_channels,
                    .column_samples = g.taps(),
                    .columns = g.image_channels,
                    .depth_samples = g.feature.h,
                    .depth = width},
                   machine, p)) {
    return false;
  }
  TapGather& gather = plan.gather;
  gather = tap_gather(of_tap, p.taps, size, p.slices > 1);
  gather.slices = p.slices;
  gather.tap_stride = p.slices > 1 ? p.partial_sample : gather.count;
  gather.slice_stride = p.partial_slice;
  return true;
}

double tapwise_clocks(const TapwisePlan& plan, const Machine& machine) {
  const std::int64_t size = plan.product.element_bytes;
  return samples_last_clocks(plan.image, size) + samples_last_clocks(plan.feature, size) +
         clocks_behind_copies(plan, machine);
}

}  // namespace adjoint::cuda

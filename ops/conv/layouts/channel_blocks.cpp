#include <adjoint/ops/conv/layouts/channel_blocks.h>

#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>
#include <limits>

namespace adjoint::cuda {

std::int32_t flat_extent(const ConvGeometry& g, bool transposed, std::size_t axis) {
  const std::int64_t stride = g.stride.in_plane(axis);
  // Offsets from a position to the values that any tap reads.
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();
  const auto reads = [&](std::int64_t offset) {
    first = std::min(first, offset);
    last = std::max(last, offset);
  };
  if (transposed) {
    for (std::int64_t place = g.padding.in_plane(axis); place < g.padding.in_plane(axis) + stride; ++place) {
      const PhaseTaps taps = phase_taps(place % stride, g.kernel.in_plane(axis), stride, g.dilation.in_plane(axis));
      for (std::int64_t t = 0; t < taps.taps; ++t) reads(place / stride - taps.first_offset - t * taps.offset_step);
    }
  } else {
    reads(floor_to(-g.padding.in_plane(axis), stride) / stride);
    reads(floor_to((g.kernel.in_plane(axis) - 1) * g.dilation.in_plane(axis) - g.padding.in_plane(axis), stride) /
          stride);
  }
  const std::int64_t feature = g.feature.in_plane(axis), image = ceil_div(g.image.in_plane(axis), stride);
  const std::int64_t copied = transposed ? feature : image, positions = transposed ? image : feature;
  return static_cast<std::int32_t>(
      std::max(positions + std::max<std::int64_t>(last, 0), copied - std::min<std::int64_t>(first, 0)));
}

}  // namespace adjoint::cuda

// The taps and source positions that contribute to one result position of the trio along one axis: an arithmetic
// progression, clipped to the source's extent, so that loops over it need no test. Plain C++, for host and device.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint {

/// One axis of a ConvGeometry in `Index` arithmetic, which must be able to hold image + 2 * padding + kernel * dilation
/// and feature * stride.
template <class Index>
struct ConvAxis {
  Index image, feature, kernel, stride, padding, dilation;

  ConvAxis() = default;
  ADJOINT_HD constexpr ConvAxis(const ConvGeometry& g, std::size_t axis)
      : image(static_cast<Index>(g.image[axis])),
        feature(static_cast<Index>(g.feature[axis])),
        kernel(static_cast<Index>(g.kernel[axis])),
        stride(static_cast<Index>(g.stride[axis])),
        padding(static_cast<Index>(g.padding[axis])),
        dilation(static_cast<Index>(g.dilation[axis])) {}
};

/// Taps tap + t * tap_step at source positions source + t * source_step, for t in [0, count).
template <class Index>
struct TapRun {
  Index count, tap, tap_step, source, source_step;
};

/// Positions [begin, end).
template <class Index>
struct PositionRange {
  Index begin, end;
  ADJOINT_HD constexpr Index size() const { return end > begin ? end - begin : 0; }
};

namespace detail {

// b > 0.
template <class Index>
ADJOINT_HD constexpr Index floor_div(Index a, Index b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
template <class Index>
ADJOINT_HD constexpr Index ceil_div(Index a, Index b) {
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}
template <class Index>
ADJOINT_HD constexpr Index smaller(Index a, Index b) {
  return a < b ? a : b;
}
template <class Index>
ADJOINT_HD constexpr Index larger(Index a, Index b) {
  return a > b ? a : b;
}

}  // namespace detail

/// conv: the image positions under feature position o.
template <class Index>
ADJOINT_HD constexpr TapRun<Index> image_run(const ConvAxis<Index>& axis, Index o) {
  const Index first = o * axis.stride - axis.padding;
  if (first >= 0 && first + (axis.kernel - 1) * axis.dilation < axis.image) {
    return {axis.kernel, 0, 1, first, axis.dilation};
  }
  const Index begin = detail::larger<Index>(0, detail::ceil_div<Index>(-first, axis.dilation));
  const Index end =
      detail::smaller<Index>(axis.kernel, detail::floor_div<Index>(axis.image - 1 - first, axis.dilation) + 1);
  if (end <= begin) return {0, 0, 1, 0, axis.dilation};
  return {end - begin, begin, 1, first + begin * axis.dilation, axis.dilation};
}

/// conv_transpose: the feature positions that touch image position q * stride + phase - padding, whose phase has
/// `taps`.
template <class Index>
ADJOINT_HD constexpr TapRun<Index> feature_run(const ConvAxis<Index>& axis, const PhaseTaps& taps, Index q) {
  const Index last = q - static_cast<Index>(taps.first_offset);
  const Index step = static_cast<Index>(taps.offset_step);
  // Positions fall as t rises: below feature from `begin` on, and from `end` on below 0.
  const Index begin = detail::larger<Index>(0, detail::ceil_div<Index>(last - (axis.feature - 1), step));
  const Index end = detail::smaller<Index>(static_cast<Index>(taps.taps), detail::floor_div<Index>(last, step) + 1);
  if (end <= begin) return {0, 0, 1, 0, 1};
  const Index tap_step = static_cast<Index>(taps.tap_step);
  return {end - begin, static_cast<Index>(taps.first_tap) + begin * tap_step, tap_step, last - begin * step, -step};
}

/// conv_weight: the feature positions whose tap k is inside the image.
template <class Index>
ADJOINT_HD constexpr PositionRange<Index> features_of_tap(const ConvAxis<Index>& axis, Index k) {
  const Index first = k * axis.dilation - axis.padding;
  return {detail::larger<Index>(0, detail::ceil_div<Index>(-first, axis.stride)),
          detail::smaller<Index>(axis.feature, detail::floor_div<Index>(axis.image - 1 - first, axis.stride) + 1)};
}

}  // namespace adjoint

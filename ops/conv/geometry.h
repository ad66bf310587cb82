// You are at stop 4 of 7 of the README's reading path, the trio: this is its index arithmetic. conv.cpp comes next.
//
// The index arithmetic of the convolution trio: constexpr, for host and device, free of CUDA headers.
//
// One trilinear form, S(image, filter, feature) = sum over valid taps of
//     image[o * stride - padding + k * dilation] * filter[k] * feature[o],
// has three partial derivatives, and they are the three operators: conv (feature from image), conv_transpose (image
// from feature), conv_weight (filter from both). All three share one ConvGeometry, which holds both extents, so that no
// gradient does geometry arithmetic.
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace adjoint {

/// (height, width), for kernels of planes.
using Extent2 = std::array<std::int64_t, 2>;

/// One value for each spatial axis. Problems of fewer axes have kUnit at the front: 2-D ones in d, 1-D ones in d and h.
template <std::int64_t kUnit>
struct Spatial {
  std::int64_t d = kUnit, h = kUnit, w = kUnit;

  constexpr Spatial() = default;
  ADJOINT_HD constexpr Spatial(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  ADJOINT_HD constexpr Spatial(std::int64_t depth, std::int64_t height, std::int64_t width)
      : d(depth), h(height), w(width) {}
  constexpr Spatial(const Extent2& plane) : h(plane[0]), w(plane[1]) {}

  /// Axis 0 is the depth.
  ADJOINT_HD constexpr std::int64_t operator[](std::size_t axis) const { return axis == 0 ? d : in_plane(axis - 1); }
  constexpr std::int64_t& operator[](std::size_t axis) { return axis == 0 ? d : in_plane(axis - 1); }
  /// Axis 0 is the height, axis 1 the width.
  ADJOINT_HD constexpr std::int64_t in_plane(std::size_t axis) const { return axis == 0 ? h : w; }
  constexpr std::int64_t& in_plane(std::size_t axis) { return axis == 0 ? h : w; }
  constexpr Extent2 plane() const { return {h, w}; }
  ADJOINT_HD constexpr std::int64_t product() const { return d * h * w; }

  friend constexpr bool operator==(const Spatial&, const Spatial&) = default;
};
using Extents = Spatial<1>;  // also of strides and dilations
using Margins = Spatial<0>;  // paddings

struct ConvGeometry {
  int rank = 2;  // spatial axes of the tensors: 1 (N, C, W), 2 (N, C, H, W) or 3 (N, C, D, H, W)
  std::int64_t batch = 1;
  std::int64_t image_channels = 1;    // conv's input, conv_transpose's output
  std::int64_t feature_channels = 1;  // conv's output, conv_transpose's input
  std::int64_t groups = 1;            // divides both
  Extents image, feature, kernel, stride;
  Margins padding;  // in front; the padding behind follows from the extents
  Extents dilation;

  ADJOINT_HD constexpr std::int64_t image_channels_per_group() const { return image_channels / groups; }
  ADJOINT_HD constexpr std::int64_t feature_channels_per_group() const { return feature_channels / groups; }
  ADJOINT_HD constexpr std::int64_t taps() const { return kernel.product(); }
  /// Positions of a channel.
  ADJOINT_HD constexpr std::int64_t image_plane() const { return image.product(); }
  ADJOINT_HD constexpr std::int64_t feature_plane() const { return feature.product(); }
  /// Elements of each tensor: image (N, Ci, D, H, W), feature (N, Cf, d, h, w), filter (Cf, Ci / groups, kd, kh, kw).
  ADJOINT_HD constexpr std::int64_t image_numel() const { return batch * image_channels * image_plane(); }
  ADJOINT_HD constexpr std::int64_t feature_numel() const { return batch * feature_channels * feature_plane(); }
  ADJOINT_HD constexpr std::int64_t filter_numel() const {
    return feature_channels * image_channels_per_group() * taps();
  }

  friend constexpr bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

/// Returns true if the problem has no depth, so that kernels of planes compute it. They ignore the depth's stride and
/// dilation.
constexpr bool is_planar(const ConvGeometry& g) {
  return g.image.d == 1 && g.feature.d == 1 && g.kernel.d == 1 && g.padding.d == 0;
}

/// If one feature position reaches each image position through a separate tap, as in the first layer of a GAN's
/// generator: the same problem with taps as image channels, which is a product of matrices in the same memory.
/// Otherwise `g`. Not for problems whose image has a bias.
constexpr ConvGeometry taps_as_channels(ConvGeometry g) {
  if (g.feature != Extents{} || g.image != g.kernel || g.padding != Margins{}) return g;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (g.kernel[axis] > 1 && g.dilation[axis] > 1) return g;
  }
  g.image_channels *= g.taps();
  g.image = g.kernel = g.stride = g.dilation = {};
  return g;
}

/// Returns true if the depth has as much padding behind as in front, within the freedom of output_padding; the height
/// and the width always have.
constexpr bool is_padded_alike(const ConvGeometry& g) {
  const std::int64_t reach = (g.feature.d - 1) * g.stride.d + (g.kernel.d - 1) * g.dilation.d;
  return g.image.d <= reach - 2 * g.padding.d + (g.stride.d > g.dilation.d ? g.stride.d : g.dilation.d);
}

/// Returns true if positions along an axis read only their own place.
constexpr bool is_pointwise(const ConvGeometry& g, std::size_t axis) {
  return g.kernel[axis] == 1 && g.stride[axis] == 1 && g.padding[axis] == 0 && g.image[axis] == g.feature[axis];
}
/// The same along every axis, as in a layer of 1 x 1 taps: a product of matrices.
constexpr bool is_pointwise(const ConvGeometry& g) {
  return is_pointwise(g, 0) && is_pointwise(g, 1) && is_pointwise(g, 2);
}

/// In that case, the same problem in the same memory with planes as rows, because rows of one plane may be too short,
/// or begin between multiples of 16 bytes. Otherwise `g`.
constexpr ConvGeometry planes_as_rows(ConvGeometry g) {
  if (!is_pointwise(g)) return g;
  g.image = g.feature = {1, g.feature_plane()};
  g.dilation = {};
  return g;
}

/// A volume whose taps all lie along its depth, padded alike, or along its width: the same problem in the same memory
/// with its other two axes merged. Otherwise `g`, and no steps along a depth that is missing.
constexpr ConvGeometry volumes_as_planes(ConvGeometry g) {
  if (is_planar(g)) g.stride.d = g.dilation.d = 1;
  if (is_planar(g) || !is_pointwise(g, 1)) return g;
  if (is_pointwise(g, 2) && is_padded_alike(g)) {
    g.image = {g.image.d, g.image.h * g.image.w};
    g.feature = {g.feature.d, g.feature.h * g.feature.w};
    g.kernel = {g.kernel.d, 1};
    g.stride = {g.stride.d, 1};
    g.padding = {g.padding.d, 0};
    g.dilation = {g.dilation.d, 1};
  } else if (is_pointwise(g, 0)) {
    g.image = {g.image.d * g.image.h, g.image.w};
    g.feature = {g.feature.d * g.feature.h, g.feature.w};
    g.dilation = {1, g.dilation.w};
  }
  return g;
}

/// The same problem in the same memory, in the form that kernels compute fastest.
constexpr ConvGeometry simplified(const ConvGeometry& g, bool has_image_bias) {
  return volumes_as_planes(planes_as_rows(has_image_bias ? g : taps_as_channels(g)));
}

/// The image position that tap k of feature position o touches; it may be outside the image.
ADJOINT_HD constexpr std::int64_t image_position(std::int64_t o, std::int64_t k, std::int64_t stride,
                                                 std::int64_t padding, std::int64_t dilation) {
  return o * stride - padding + k * dilation;
}

ADJOINT_HD constexpr std::int64_t gcd(std::int64_t a, std::int64_t b) {
  while (b != 0) {
    const std::int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/// The taps of one phase of one axis. Image positions i with i + padding = q * stride + phase are touched by the taps k
/// = first_tap + t * tap_step, t in [0, taps), at feature position o = q - first_offset - t * offset_step: each phase
/// is a separate stride-1 problem. With g = gcd(stride, dilation), phases that are not multiples of g have no taps.
struct PhaseTaps {
  std::int64_t taps = 0;
  std::int64_t first_tap = 0;
  std::int64_t tap_step = 1;
  std::int64_t first_offset = 0;
  std::int64_t offset_step = 1;
};

ADJOINT_HD constexpr PhaseTaps phase_taps(std::int64_t phase, std::int64_t kernel, std::int64_t stride,
                                          std::int64_t dilation) {
  PhaseTaps result;
  const std::int64_t g = gcd(stride, dilation);
  result.tap_step = stride / g;
  result.offset_step = dilation / g;
  for (std::int64_t k = 0; k < kernel && k < result.tap_step; ++k) {
    const std::int64_t distance = k * dilation - phase;
    if (distance % stride == 0) {
      result.taps = (kernel - 1 - k) / result.tap_step + 1;
      result.first_tap = k;
      result.first_offset = distance / stride;
      return result;
    }
  }
  return result;
}

}  // namespace adjoint

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

/// One value for each spatial axis, (height, width). 1-D problems use the width; their height is 1.
using Extent2 = std::array<std::int64_t, 2>;

struct ConvGeometry {
  int rank = 2;  // spatial axes of the tensors: 2 (N, C, H, W) or 1 (N, C, W)
  std::int64_t batch = 1;
  std::int64_t image_channels = 1;    // conv's input, conv_transpose's output
  std::int64_t feature_channels = 1;  // conv's output, conv_transpose's input
  std::int64_t groups = 1;            // divides both
  Extent2 image{1, 1};
  Extent2 feature{1, 1};
  Extent2 kernel{1, 1};
  Extent2 stride{1, 1};
  Extent2 padding{0, 0};
  Extent2 dilation{1, 1};

  ADJOINT_HD constexpr std::int64_t image_channels_per_group() const { return image_channels / groups; }
  ADJOINT_HD constexpr std::int64_t feature_channels_per_group() const { return feature_channels / groups; }
  ADJOINT_HD constexpr std::int64_t taps() const { return kernel[0] * kernel[1]; }
  ADJOINT_HD constexpr std::int64_t image_plane() const { return image[0] * image[1]; }
  ADJOINT_HD constexpr std::int64_t feature_plane() const { return feature[0] * feature[1]; }
  /// Elements of each tensor: image (N, Ci, H, W), feature (N, Cf, h, w), filter (Cf, Ci / groups, kh, kw).
  ADJOINT_HD constexpr std::int64_t image_numel() const { return batch * image_channels * image_plane(); }
  ADJOINT_HD constexpr std::int64_t feature_numel() const { return batch * feature_channels * feature_plane(); }
  ADJOINT_HD constexpr std::int64_t filter_numel() const {
    return feature_channels * image_channels_per_group() * taps();
  }

  friend constexpr bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

/// Where one feature position reaches every image position through a tap of its own, as in the first layer of a GAN's
/// generator: the same problem with taps as image channels, which is a product of matrices in the same memory.
/// Otherwise `g`. Not for problems where the image has a bias.
constexpr ConvGeometry taps_as_channels(ConvGeometry g) {
  if (g.feature != Extent2{1, 1} || g.image != g.kernel || g.padding != Extent2{0, 0}) return g;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (g.kernel[axis] > 1 && g.dilation[axis] > 1) return g;
  }
  g.image_channels *= g.taps();
  g.image = g.kernel = g.stride = g.dilation = {1, 1};
  return g;
}

/// Whether a position reads only its own place, as in a layer of 1 x 1 taps: a product of matrices.
constexpr bool is_pointwise(const ConvGeometry& g) {
  constexpr Extent2 kOnes{1, 1};
  return g.kernel == kOnes && g.stride == kOnes && g.padding == Extent2{0, 0} && g.image == g.feature;
}

/// If that is so, the same problem in the same memory with planes as rows, because rows of one plane may be too short,
/// or begin between multiples of 16 bytes. Otherwise `g`.
constexpr ConvGeometry planes_as_rows(ConvGeometry g) {
  if (!is_pointwise(g)) return g;
  g.image = g.feature = {1, g.feature_plane()};
  g.dilation = {1, 1};
  return g;
}

/// The same problem in the same memory, in the form that kernels compute fastest.
constexpr ConvGeometry simplified(const ConvGeometry& g, bool has_image_bias) {
  return planes_as_rows(has_image_bias ? g : taps_as_channels(g));
}

/// The image position that tap k of feature position o touches; it may lie outside the image.
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
/// is a stride-1 problem of its own. With g = gcd(stride, dilation), phases that are not multiples of g have no taps.
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

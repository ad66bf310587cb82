// Changing the resolution of images and volumes: interpolation, and moving channels to pixels and back.
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/conv.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace adjoint {

enum class Interpolation : std::uint8_t {
  /// The input's pixel at floor(o ratio), where ratio is the input's extent divided by the result's, or 1 /
  /// scale_factor.
  kNearest,
  /// The pixel with the nearest centre: floor((o + 1/2) ratio).
  kNearestExact,
  /// Mode for 1-D signals (N, C, L).
  kLinear,
  kBilinear,
  /// Mode for volumes (N, C, D, H, W).
  kTrilinear,
  /// Cubic convolution (Keys, 1981): a = -0.75 as in PyTorch; a = -0.5 with antialias, as in PIL and MATLAB.
  kBicubic,
  /// adaptive_avg_pool2d, and its 1-D and 3-D versions.
  kArea,
};

/// PyTorch's name: "nearest", "nearest-exact", "bilinear".
ADJOINT_API std::string to_string(Interpolation mode);
ADJOINT_API Interpolation enumerator(std::string_view name, Interpolation);

/// One number for every axis of a signal, an image or a volume, or {h, w} of an image, or {d, h, w} of a volume. 0: not
/// given.
template <class Number>
struct OfAxes {
  Number d = 0, h = 0, w = 0;
  constexpr OfAxes() = default;
  constexpr OfAxes(Number all) : d(all), h(all), w(all) {}
  constexpr OfAxes(Number height, Number width) : h(height), w(width) {}
  constexpr OfAxes(Number depth, Number height, Number width) : d(depth), h(height), w(width) {}
  constexpr OfAxes(const Size2& size) requires std::same_as<Number, std::int64_t> : OfAxes(size.h, size.w) {}
  constexpr OfAxes(const Size3& size) requires std::same_as<Number, std::int64_t> : OfAxes(size.d, size.h, size.w) {}
  friend constexpr bool operator==(const OfAxes&, const OfAxes&) = default;
};
using AxisSizes = OfAxes<std::int64_t>;
using AxisScales = OfAxes<double>;

struct InterpolateParams {
  ByName by_name = {};
  /// The extents of the result's axes behind the channels, or
  AxisSizes size = 0;
  /// the factors of the input's extents, whose products are rounded down.
  AxisScales scale_factor = 0.0;
  /// Or its name: .mode = "bilinear".
  Named<Interpolation> mode = Interpolation::kNearest;
  /// Align the centres of the corner pixels of both images, not the images' edges.
  bool align_corners = false;
  /// If the result is smaller, widen the filter, so that detail too fine for the result is averaged, not aliased.
  bool antialias = false;
};

/// input, floating point -> the same axes, the last ones with new extents; differentiable to any order. kBilinear and
/// kBicubic accept pictures (..., H, W), at least two axes: three are (C, H, W) and never a signal (N, C, L), which
/// PyTorch would refuse. kLinear accepts (N, C, L), kTrilinear (N, C, D, H, W). kNearest, kNearestExact and kArea
/// accept (N, C, L), (N, C, H, W) and (N, C, D, H, W), so three axes are a signal, and five a volume. Separable.
/// Positions follow PyTorch: pixel centres are at half-integers. Taps beyond an edge repeat the edge's pixel; with
/// antialias they are left out and the others rescaled to sum to 1. An axis whose extent does not change is copied, for
/// any scale_factor. The intermediate images between the axes are no larger than the larger of input and result; for
/// 16-bit dtypes they and copies of those are float32. On CUDA an image has an intermediate one only if extents are in
/// the tens of thousands or a result's row needs hundreds of the input's; a volume has one between depth and the other
/// axes. Throws Error unless exactly one of size and scale_factor is given and positive, for numbers of another count
/// than the axes, for an empty image (a batch of 0 is allowed), for a result whose bytes exceed 63 bits, for
/// align_corners and antialias with modes that have no filter or (antialias) with signals and volumes, and for both
/// together, which have no common meaning.
ADJOINT_API Tensor interpolate(const Tensor& input, const InterpolateParams& params);

/// input (..., C r^2, H, W) -> (..., C, H r, W r): output pixel (y, x) of channel c is channel c r^2 + (y % r) r + x %
/// r. Any dtype. Differentiable. Throws Error if r^2 does not divide the channels.
ADJOINT_API Tensor pixel_shuffle(const Tensor& input, std::int64_t upscale_factor);
/// The inverse: input (..., C, H r, W r) -> (..., C r^2, H, W).
ADJOINT_API Tensor pixel_unshuffle(const Tensor& input, std::int64_t downscale_factor);

}  // namespace adjoint

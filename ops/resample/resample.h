// Changing the resolution of images: interpolation, and moving channels to pixels and back.
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/conv.h>

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
  /// For 1-D signals (N, C, L).
  kLinear,
  kBilinear,
  /// Cubic convolution (Keys, 1981): a = -0.75 as in PyTorch; a = -0.5 with antialias, as in PIL and MATLAB.
  kBicubic,
  /// adaptive_avg_pool2d.
  kArea,
};

/// PyTorch's name: "nearest", "nearest-exact", "bilinear".
ADJOINT_API std::string to_string(Interpolation mode);
ADJOINT_API Interpolation enumerator(std::string_view name, Interpolation);

/// Factors for height and width: from one number for both, or {h, w}.
struct Scale2 {
  double h = 0.0, w = 0.0;
  constexpr Scale2() = default;
  constexpr Scale2(double both) : h(both), w(both) {}
  constexpr Scale2(double height, double width) : h(height), w(width) {}
};

struct InterpolateParams {
  ByName by_name = {};
  /// The result's height and width, or
  Size2 size = 0;
  /// the factors of the input's height and width, rounded down.
  Scale2 scale_factor = 0.0;
  /// Or its name: .mode = "bilinear".
  Named<Interpolation> mode = Interpolation::kNearest;
  /// Align the centres of the corner pixels of both images, not the images' edges.
  bool align_corners = false;
  /// If the result is smaller, widen the filter, so that detail too fine for the result is averaged, not aliased.
  bool antialias = false;
};

/// input, floating point -> the same axes, the last ones with new extents; differentiable to any order. kBilinear and
/// kBicubic take pictures (..., H, W), at least two axes: three are (C, H, W) and never a signal (N, C, L), which
/// PyTorch would refuse. kLinear takes (N, C, L), whose size and scale_factor are one number. kNearest, kNearestExact
/// and kArea take (N, C, L) and (N, C, H, W), so three axes are a signal. Separable. Positions follow PyTorch: pixel
/// centres are at half-integers. Taps beyond an edge repeat the edge's pixel; with antialias they are left out and the
/// others rescaled to sum to 1. An axis whose extent does not change is copied, whatever the scale_factor. The
/// intermediate image between the axes is no larger than the larger of input and result; for 16-bit dtypes it and
/// copies of those are float32. On CUDA there is an intermediate image only if extents are in the tens of thousands or
/// a result's row needs hundreds of the input's. Throws Error unless exactly one of size and scale_factor is given and
/// positive, for an empty image (a batch of 0 is allowed), for a result whose bytes exceed 63 bits, for align_corners
/// and antialias with modes that have no filter or (antialias) with 1-D signals, and for both together, which have no
/// common meaning.
ADJOINT_API Tensor interpolate(const Tensor& input, const InterpolateParams& params);

/// input (..., C r^2, H, W) -> (..., C, H r, W r): output pixel (y, x) of channel c is channel c r^2 + (y % r) r + x %
/// r. Any dtype. Differentiable. Throws Error if r^2 does not divide the channels.
ADJOINT_API Tensor pixel_shuffle(const Tensor& input, std::int64_t upscale_factor);
/// The inverse: input (..., C, H r, W r) -> (..., C r^2, H, W).
ADJOINT_API Tensor pixel_unshuffle(const Tensor& input, std::int64_t downscale_factor);

}  // namespace adjoint

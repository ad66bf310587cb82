// Changing the resolution of images: interpolation, and moving channels to pixels and back.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/conv.h>

#include <cstdint>
#include <string>

namespace adjoint {

enum class Interpolation : std::uint8_t {
  /// The input's pixel at floor(o ratio), where ratio is the input's extent over the result's, or 1 / scale_factor.
  kNearest,
  /// The one whose centre is nearest: floor((o + 1/2) ratio).
  kNearestExact,
  /// Of 1-D signals (N, C, L).
  kLinear,
  kBilinear,
  /// Cubic convolution (Keys, 1981): a = -0.75, as PyTorch has it; a = -0.5 with antialias, as PIL and MATLAB have it.
  kBicubic,
  /// adaptive_avg_pool2d.
  kArea,
};

/// As PyTorch names it: "nearest", "nearest-exact", "bilinear".
ADJOINT_API std::string to_string(Interpolation mode);

/// A factor for height and one for width: from one number for both, or {h, w}.
struct Scale2 {
  double h = 0.0, w = 0.0;
  constexpr Scale2() = default;
  constexpr Scale2(double both) : h(both), w(both) {}
  constexpr Scale2(double height, double width) : h(height), w(width) {}
};

struct InterpolateParams {
  /// The result's height and width; or
  Size2 size = 0;
  /// what to multiply the input's by, rounding down.
  Scale2 scale_factor = 0.0;
  Interpolation mode = Interpolation::kNearest;
  /// Put the centres of the corner pixels of both images on one another, in place of the images' edges.
  bool align_corners = false;
  /// Where the result is smaller, widen the filter so that detail which it cannot hold is averaged, not aliased.
  bool antialias = false;
};

/// input, floating point -> the same axes, the last ones with new extents; differentiable to any order. kBilinear and
/// kBicubic take pictures (..., H, W), at least two axes: three are (C, H, W) and never a signal (N, C, L), which
/// PyTorch's would refuse. kLinear takes (N, C, L), whose size and scale_factor are one number; kNearest, kNearestExact
/// and kArea take (N, C, L) and (N, C, H, W), so that three axes are a signal. Separable. Positions follow PyTorch:
/// pixel centres are at half-integers. Taps beyond an edge repeat the edge's pixel; with antialias they are left out
/// and the rest made to sum to 1. An axis whose extent does not change is copied, whatever the scale_factor. Between
/// the axes stands one image no larger than the larger of input and result; for 16-bit dtypes it and copies of those
/// are float32. On CUDA only where extents are in the tens of thousands or a result's row needs hundreds of the
/// input's. Throws Error unless exactly one of size and scale_factor is given and positive, for an empty image (a batch
/// of 0 is fine), for a result of more bytes than 63 bits count, for align_corners and antialias with modes that have
/// no filter or (antialias) of 1-D signals, and for both of them, which have no common meaning.
ADJOINT_API Tensor interpolate(const Tensor& input, const InterpolateParams& params);

/// input (..., C r^2, H, W) -> (..., C, H r, W r): output pixel (y, x) of channel c is channel c r^2 + (y % r) r + x %
/// r. Any dtype. Differentiable. Throws Error where channels are no multiple of r^2.
ADJOINT_API Tensor pixel_shuffle(const Tensor& input, std::int64_t upscale_factor);
/// The inverse: input (..., C, H r, W r) -> (..., C r^2, H, W).
ADJOINT_API Tensor pixel_unshuffle(const Tensor& input, std::int64_t downscale_factor);

}  // namespace adjoint

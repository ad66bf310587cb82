// Sampling images and volumes at computed positions.
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <string_view>

namespace adjoint {

enum class GridSampleMode : std::uint8_t {
  kBilinear,  // of volumes trilinear
  kNearest,   // ties to even; its gradient in the grid is 0
  kBicubic,   // of images: cubic convolution (Keys, 1981) with a = -0.75, as in PyTorch
};

/// The values outside the image.
enum class GridSamplePadding : std::uint8_t {
  kZeros,
  kBorder,      // the nearest pixel at the edge
  kReflection,  // the image, mirrored at its edges as often as needed
};

/// "bilinear", "nearest", "bicubic"; "zeros", "border", "reflection".
ADJOINT_API GridSampleMode enumerator(std::string_view name, GridSampleMode);
ADJOINT_API GridSamplePadding enumerator(std::string_view name, GridSamplePadding);

struct GridSampleParams {
  Named<GridSampleMode> mode = GridSampleMode::kBilinear;
  Named<GridSamplePadding> padding_mode = GridSamplePadding::kZeros;
  /// -1 and 1 are the centres of the corner pixels, not the image's edges.
  bool align_corners = false;
};

/// input (N, C, H, W), grid (N, H', W', 2) -> (N, C, H', W'): result[n, c, i, j] is input's channel c at x = grid[n, i,
/// j, 0] along the width and y = grid[n, i, j, 1] along the height, between -1 and 1 inside the image, interpolated.
/// Volumes are input (N, C, D, H, W), grid (N, D', H', W', 3) -> (N, C, D', H', W'), with the place along the depth
/// last. Floating point, one dtype. NaN counts as a constant -1, and positions are clamped to 2^30 pixels from the
/// image. Positions and weights of float16 and bfloat16 are computed in float32. Differentiable in both, to any order.
/// At a kink or jump of the interpolation, the grid's derivative is that of the cell to the right or below; it is 0 if
/// kBorder or kReflection clamp a position to the edge, as in PyTorch. The contributions of several positions to one
/// pixel's gradient are added in a fixed order. Throws Error for an image without pixels, batches that differ, a grid
/// whose last axis does not have 2 elements, or 3 for a volume, and kBicubic with a volume.
ADJOINT_API Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleParams& params = {});

/// theta (N, 2, 3), floating point, size (N, C, H, W) -> (N, H, W, 2): the grid with which grid_sample gives an image
/// of that size whose pixel (x, y), in -1 to 1, is input's at theta (x, y, 1). For volumes theta (N, 3, 4), size (N, C,
/// D, H, W) -> (N, D, H, W, 3), with theta (x, y, z, 1). Differentiable. Throws Error for other shapes and for D, H or
/// W below 1.
ADJOINT_API Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);

}  // namespace adjoint

// Sampling images at positions that are computed.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

enum class GridSampleMode : std::uint8_t {
  kBilinear,
  kNearest,  // ties to even; its gradient in the grid is 0
  kBicubic,  // cubic convolution (Keys, 1981) with a = -0.75, as PyTorch has it
};

/// What stands outside the image.
enum class GridSamplePadding : std::uint8_t {
  kZeros,
  kBorder,      // the pixel at the edge that is nearest
  kReflection,  // the image, mirrored at its edges as often as needed
};

struct GridSampleParams {
  GridSampleMode mode = GridSampleMode::kBilinear;
  GridSamplePadding padding_mode = GridSamplePadding::kZeros;
  /// -1 and 1 are the centres of the corner pixels, in place of the image's edges.
  bool align_corners = false;
};

/// input (N, C, H, W), grid (N, H', W', 2) -> (N, C, H', W'): result[n, c, i, j] is input's channel c at x = grid[n, i,
/// j, 0] along the width and y = grid[n, i, j, 1] along the height, between -1 and 1 inside the image, interpolated.
/// Floating point, one dtype. NaN counts as a constant -1, and a position is never further from the image than 2^30
/// pixels. Positions and weights of float16 and bfloat16 are computed in float32. Differentiable in both, to any order;
/// in the grid, where an interpolation has a kink or a jump, with the derivative of the cell to the right or below, and
/// where kBorder or kReflection cut a position to the edge, with 0, as PyTorch does. What several positions add to one
/// pixel's gradient is added in a fixed order. Throws Error for an image without pixels, batches that differ, and a
/// grid whose last axis has not 2 elements.
ADJOINT_API Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleParams& params = {});

/// theta (N, 2, 3), floating point, size (N, C, H, W) -> (N, H, W, 2): the grid with which grid_sample gives an image
/// of that size whose pixel (x, y), in -1 to 1, is input's at theta (x, y, 1). Differentiable. Throws Error for other
/// shapes and H or W below 1.
ADJOINT_API Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);

}  // namespace adjoint

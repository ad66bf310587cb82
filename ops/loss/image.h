// Distances between images, and their smoothness.
//
// Images are floating point, (N, C, H, W). Each image has one value; the reduction is over the images, so kNone gives
// (N). 16-bit types are computed in float32 and rounded once. Differentiable to any order. Throws Error for other ranks
// and for operands whose shapes or dtypes differ: nothing broadcasts.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/loss/loss.h>

#include <cstdint>

namespace adjoint {

struct SsimOptions {
  /// The largest possible element minus the least: 1, or 255.
  double data_range = 1.0;
  /// The size of the Gaussian window, odd and at most height and width, and its standard deviation.
  std::int64_t window_size = 11;
  double sigma = 1.5;
  double k1 = 0.01, k2 = 0.03;
  Named<Reduction> reduction = Reduction::kMean;
};
/// The structural similarity of two images, 1 if they are equal: its mean over channels and over the positions where
/// the window lies inside (Wang, Bovik, Sheikh, Simoncelli: "Image quality assessment: from error visibility to
/// structural similarity", 2004; moments are the window's, without a correction). As a loss: 1 - ssim(x, y). Throws
/// Error for a window that is even or larger than the image, and unless sigma and data_range are positive.
ADJOINT_API Tensor ssim(const Tensor& input, const Tensor& target, const SsimOptions& options = {});

struct PsnrOptions {
  double data_range = 1.0;
  Named<Reduction> reduction = Reduction::kMean;
};
/// The peak signal-to-noise ratio in dB, 10 log10(data_range^2 / mean squared error); infinite if the images are equal.
/// Throws Error unless data_range is positive.
ADJOINT_API Tensor psnr(const Tensor& input, const Tensor& target, const PsnrOptions& options = {});

/// The sum of absolute differences between vertical and between horizontal neighbours (Rudin, Osher, Fatemi: "Nonlinear
/// total variation based noise removal algorithms", 1992; the anisotropic form). The gradient between equal neighbours
/// is 0.
ADJOINT_API Tensor total_variation(const Tensor& input, Named<Reduction> reduction = Reduction::kSum);

}  // namespace adjoint

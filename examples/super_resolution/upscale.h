// Enlarging whole pictures, tile by tile.
#pragma once

#include "model.h"
#include "pictures.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <optional>

namespace super_resolution {

/// A tile's extent in low-resolution pixels: large enough for the convolutions, small enough that all of a tile's
/// feature maps take some tens of megabytes.
inline constexpr std::int64_t kTile = 256;

struct UpscaleOptions {
  std::int64_t tile = kTile;
  /// The mean of the model's results for a picture's eight flips and quarter turns, each turned back (Timofte, Rothe,
  /// Van Gool: "Seven ways to improve example-based single image super resolution", 2016): better, in eight times the
  /// time.
  bool self_ensemble = false;
  /// Without the model: bicubic interpolation, by the same factor.
  bool bicubic = false;
};

/// luma (1, H, W), float32, on the CPU -> (1, scale H, scale W). Each tile is computed with all the surroundings that
/// its pixels depend on, so that the tiles join without a seam.
adjoint::Tensor upscale_luma(const Model& model, const adjoint::Tensor& luma, adjoint::Device device,
                             const UpscaleOptions& options = {});

/// A picture (C, H, W) of 1 to 4 channels, uint8, or float32 in [0, 1], -> (C, scale H, scale W) of its dtype, clamped.
/// The model enlarges the luma; colour differences and alpha are interpolated bicubically. Beside both pictures, memory
/// for a few tiles is used.
adjoint::Tensor upscale(const Model& model, const adjoint::Tensor& image, adjoint::Device device,
                        const UpscaleOptions& options = {});

/// Returns the quality of the model and of bicubic interpolation on the picture shrunk by the scale, measured against
/// the picture. It hints at which of the two enlarges the picture itself better. A large picture is tested in its
/// middle. Returns nullopt for a picture that is too small.
std::optional<Quality> expected_quality(const Model& model, const adjoint::Tensor& image, adjoint::Device device,
                                        bool self_ensemble);

}  // namespace super_resolution

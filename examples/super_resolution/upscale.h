// Enlarging whole pictures, tile by tile.
#pragma once

#include "model.h"

#include <adjoint/core/device.h>
#include <adjoint/core/tensor.h>

#include <cstdint>

namespace super_resolution {

/// A tile's extent in low-resolution pixels: large enough for the convolutions, small enough that all of a tile's
/// feature maps take some tens of megabytes.
inline constexpr std::int64_t kTile = 256;

/// luma (1, H, W), float32, on the CPU -> (1, 2 H, 2 W). Each tile is computed with as much of its surroundings as its
/// pixels depend on, so that the tiles fit together without a seam.
adjoint::Tensor upscale_luma(const Model& model, const adjoint::Tensor& luma, adjoint::Device device,
                             std::int64_t tile = kTile);

/// A picture (C, H, W), uint8, of 1 to 4 channels -> (C, 2 H, 2 W), uint8. The model enlarges the luma; colour
/// differences and alpha are interpolated bicubically. Beside both pictures, memory for a few tiles is used.
adjoint::Tensor upscale(const Model& model, const adjoint::Tensor& image, adjoint::Device device,
                        std::int64_t tile = kTile);

}  // namespace super_resolution

// Classes of volumes of any size, by overlapping tiles, and slices as pictures.
#pragma once

#include "unet.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <vector>

namespace volumes {

/// Probabilities (classes, D, H, W), float32 on the CPU, of a volume (1, D, H, W), float32, by a model in eval mode
/// that is on `device`. Tiles of `tile` voxels, rounded up to two or more times model.alignment(), overlap by half or
/// more along each axis, and are blended with weights that fall from a tile's centre to its faces. A volume narrower
/// than a tile is extended by its last voxels. The result depends on `tile`.
adjoint::Tensor probabilities(const UNet& model, const adjoint::Tensor& volume, adjoint::Device device,
                              std::int64_t tile = 64);

/// Layer `z` of a volume (1, D, H, W), whose darkest hundredth of voxels is black and brightest white: (3, H, W),
/// uint8.
adjoint::Tensor slice_of(const adjoint::Tensor& volume, std::int64_t z);
/// Layer `z` of a mask (1, D, H, W): (1, H, W).
adjoint::Tensor layer_of(const adjoint::Tensor& mask, std::int64_t z);
/// The layer with the most voxels of classes other than 0.
std::int64_t fullest_layer(const adjoint::Tensor& mask);
/// Up to `count` layers at equal distances under the classes' colours, as one picture (3, H', W').
adjoint::Tensor slices(const adjoint::Tensor& volume, const adjoint::Tensor& classes, std::int64_t count = 12);

}  // namespace volumes

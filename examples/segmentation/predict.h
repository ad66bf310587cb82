// Classes of pictures of any size, by tiles.
#pragma once

#include "unet.h"

#include "common/classes.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace segmentation {

using examples::classes_of;
using examples::colored;
using examples::Confusion;
using examples::overlay;

/// Scores (classes, H, W), float32 on the CPU, of a picture (3, H, W), uint8, by a model in eval mode that is on
/// `device`. Tiles of `tile` pixels, rounded up to a multiple of model.alignment(), begin at multiples of it and are
/// computed with model.margin() pixels around them. With BatchNorm the result equals that of the whole picture up to
/// rounding; with GroupNorm, whose statistics are computed for each tile, tiles are blended where they overlap. A
/// picture narrower than model.alignment() is extended by its last pixels.
adjoint::Tensor scores(const UNet& model, const adjoint::Tensor& picture, adjoint::Device device,
                       std::int64_t tile = 256);

}  // namespace segmentation

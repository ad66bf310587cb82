// The built-in data: drawn scenes, each pixel's class known.
#pragma once

#include "common/classes.h"

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace segmentation {

using examples::kIgnored;

struct Scene {
  adjoint::Tensor image;  // (3, H, W), uint8
  adjoint::Tensor mask;   // (1, H, W), uint8: classes, or kIgnored
};

/// background, disc, square, star, wire.
const std::vector<std::string>& scene_classes();

/// Scene `number` of an endless series, the same on every machine up to rounding. Shapes of many sizes overlap, with
/// holes, and wires of one to three pixels. Colours of a class lean to a hue, by 0 to most of it; textures carry no
/// information: the background, which has patches of several, shares them.
Scene drawn_scene(std::uint64_t number, std::int64_t height, std::int64_t width);

}  // namespace segmentation

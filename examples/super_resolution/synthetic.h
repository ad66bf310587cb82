// Pictures that the project draws itself, for training without photographs: edges, text and texture.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace super_resolution {

/// Picture number `number` of an endless series, the same on every machine up to rounding: (3, height, width), uint8.
///
/// Most are dead leaves (shapes of all sizes lying on one another, whose edges and contrasts are distributed as a
/// photograph's are: Lee, Mumford, Huang: "Occlusion models for natural images", 2001), plain, shaded or textured, with
/// fine lines and text on them; some are pages of text, and some test patterns.
adjoint::Tensor synthetic_picture(std::uint64_t number, std::int64_t height, std::int64_t width);

}  // namespace super_resolution

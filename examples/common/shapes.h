// Built-in data of programs that make small pictures: drawn shapes, one a picture, of six classes.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace examples {

/// Extent of these pictures, in pixels.
inline constexpr std::int64_t kPictureExtent = 32;

struct DrawnShape {
  adjoint::Tensor image;   // (3, 32, 32), uint8
  std::int64_t label = 0;  // index into shape_classes()
};

/// disc, ring, square, triangle, star, cross.
const std::vector<std::string>& shape_classes();

/// Shape `number` of an endless series, the same on every machine up to rounding: of any hue, place, size and turn, on
/// a dark ground that is shaded from one side to the other.
DrawnShape drawn_shape(std::uint64_t number);

}  // namespace examples

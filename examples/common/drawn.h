// Built-in data of programs that make small pictures: sets of drawn pictures, each of a class.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace examples {

/// Extent of these pictures, in pixels.
inline constexpr std::int64_t kPictureExtent = 32;

struct DrawnPicture {
  adjoint::Tensor image;   // (3, 32, 32), uint8
  std::int64_t label = 0;  // index into DrawnSet::classes
};

/// Picture `number` of an endless series, the same on every machine up to rounding, on a dark ground of any hue that is
/// shaded from one side to the other. A shape of any hue, place, size and turn: disc, ring, square, triangle, star or
/// cross.
DrawnPicture drawn_shape(std::uint64_t number);
/// A digit of strokes, of any hue, place, size, width, slant and thickness, a little turned and bent.
DrawnPicture drawn_digit(std::uint64_t number);

struct DrawnSet {
  std::string name;  // "shapes", "digits"
  std::vector<std::string> classes;
  DrawnPicture (*draw)(std::uint64_t number);
};

/// The names of the sets.
std::vector<std::string> drawn_sets();
/// Throws Error if there is no set of that name.
const DrawnSet& drawn_set(const std::string& name);

}  // namespace examples

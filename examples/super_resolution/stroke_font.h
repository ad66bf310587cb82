// A font of strokes, for labels and for text in made pictures.
#pragma once

#include "canvas.h"

#include <vector>

namespace super_resolution {

/// Units of the font: capitals are 6 high, lower-case letters 4, and 2 hang below the line.
inline constexpr float kCapHeight = 6.0F;
/// Between two characters.
inline constexpr float kGap = 2.0F;

struct Glyph {
  std::vector<std::vector<Point>> strokes;  // y upwards from the line
  float advance = 4.0F;                     // to the next character, the gap included
};

/// ASCII's letters, digits and common marks; an empty glyph for anything else.
const Glyph& glyph_of(char character);

}  // namespace super_resolution

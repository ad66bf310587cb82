// A font of strokes, for text and digits in generated pictures.
#pragma once

#include "common/paint.h"

#include <string_view>
#include <vector>

namespace examples {

/// A character's strokes, y upwards from the baseline: capitals and digits are 6 high and 3 or 4 wide, from x = 0 on;
/// small letters are 4 high, and some hang 2 below. No strokes for characters that the font lacks.
const std::vector<std::vector<Point>>& strokes_of(char character);

/// Capitals are `size` pixels high; the first one's foot is at `at`. `angle` turns the line clockwise, in radians;
/// `weight` is a stroke's thickness, of the size. Of ASCII letters, digits and common marks; others leave a gap.
void paint_text(Painting& painting, Point at, float size, std::string_view text, Rgb color, float angle, float weight);

}  // namespace examples

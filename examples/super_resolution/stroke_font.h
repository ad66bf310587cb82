// A font of strokes, for text in made pictures.
#pragma once

#include "common/paint.h"

#include <string_view>

namespace super_resolution {

/// Capitals are `size` pixels high; the first one's foot stands at `at`. `angle` turns the line clockwise, in radians;
/// `weight` is a stroke's thickness, of the size. Of ASCII letters, digits and common marks; others leave a gap.
void paint_text(examples::Painting& painting, examples::Point at, float size, std::string_view text,
                examples::Rgb color, float angle, float weight);

}  // namespace super_resolution

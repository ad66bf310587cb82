// Drawing with smooth edges: shapes by their distance functions, and text in a small stroke font. Reports are drawn
// with it, and so are the pictures that the example trains on where it is given none.
#pragma once

#include <adjoint/core/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace super_resolution {

/// Red, green, blue, from 0 to 1.
struct Rgb {
  float r = 0, g = 0, b = 0;
};

inline Rgb operator*(float s, Rgb c) { return {s * c.r, s * c.g, s * c.b}; }
inline Rgb operator+(Rgb a, Rgb b) { return {a.r + b.r, a.g + b.g, a.b + b.b}; }
inline Rgb mix(Rgb a, Rgb b, float t) { return (1.0F - t) * a + t * b; }

/// x to the right, y downwards, in pixels; pixel (0, 0) covers [0, 1) x [0, 1).
struct Point {
  float x = 0, y = 0;
};

/// A picture being drawn. What lies outside is left out.
class Canvas {
 public:
  Canvas(std::int64_t height, std::int64_t width, Rgb background = {});
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  /// Paints with coverage clamp(0.5 - distance(p), 0, 1) at each pixel's centre p inside the box (corners `low` and
  /// `high`): `distance` is negative inside the shape, in pixels. `color(p)` gives the paint.
  template <class Distance, class Color>
  void paint(Point low, Point high, Distance distance, Color color, float opacity = 1.0F) {
    const auto first = [](float v) { return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(v)) - 1); };
    const auto last = [](float v, std::int64_t top) {
      return std::min(top, static_cast<std::int64_t>(std::ceil(v)) + 1);
    };
    for (std::int64_t y = first(low.y); y < last(high.y, height_); ++y) {
      for (std::int64_t x = first(low.x); x < last(high.x, width_); ++x) {
        const Point p{static_cast<float>(x) + 0.5F, static_cast<float>(y) + 0.5F};
        const float coverage = std::clamp(0.5F - distance(p), 0.0F, 1.0F) * opacity;
        if (coverage > 0.0F) {
          Rgb& pixel = pixels_[static_cast<std::size_t>(y * width_ + x)];
          pixel = mix(pixel, color(p), coverage);
        }
      }
    }
  }

  void rectangle(Point low, Point high, Rgb color, float opacity = 1.0F);
  void disc(Point centre, float radius, Rgb color);
  /// Round ends and joints.
  void polyline(const std::vector<Point>& points, float thickness, Rgb color, float opacity = 1.0F);
  /// Capitals are `size` pixels high; the first one's foot stands at `at`. `angle` turns the line clockwise, in
  /// radians. Characters that the font lacks leave a gap.
  void text(Point at, float size, std::string_view text, Rgb color, float angle = 0.0F, float weight = 0.13F);
  static float text_width(float size, std::string_view text);
  /// Copies a picture (3, h, w), uint8, in with its top left corner at (left, top).
  void paste(const adjoint::Tensor& image, std::int64_t left, std::int64_t top);

  /// (3, H, W), uint8.
  adjoint::Tensor image() const;

 private:
  std::int64_t height_, width_;
  std::vector<Rgb> pixels_;
};

}  // namespace super_resolution

// Paints training data for programs without input files: shapes with smooth edges by their distance functions, with
// texture and shading, and masks of the objects. The same on every machine up to rounding.
#pragma once

#include "common/canvas.h"

#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace examples {

inline Rgb operator*(float s, Rgb c) { return {s * c.r, s * c.g, s * c.b}; }
inline Rgb operator+(Rgb a, Rgb b) { return {a.r + b.r, a.g + b.g, a.b + b.b}; }
inline Rgb mix(Rgb a, Rgb b, float t) { return (1.0F - t) * a + t * b; }

/// Random choices, fixed by a seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}
  float between(float low, float high) { return low + (high - low) * static_cast<float>(generator_.uniform()); }
  std::int64_t integer(std::int64_t low, std::int64_t high) {  // both included
    return low + static_cast<std::int64_t>(generator_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool chance(float probability) { return between(0, 1) < probability; }
  /// A number whose logarithm is uniform: as likely between 2 and 4 as between 4 and 8.
  float log_between(float low, float high) { return low * std::pow(high / low, between(0, 1)); }
  /// A colour, mostly a grey with a tint, because photographs have few saturated colours.
  Rgb color();
  std::uint32_t bits() { return static_cast<std::uint32_t>(generator_.next()); }

 private:
  adjoint::Generator generator_;
};

/// A picture being painted, with a number for each pixel that identifies the object covering most of it (0 at first).
/// Parts outside are clipped.
class Painting {
 public:
  Painting(std::int64_t height, std::int64_t width, Rgb background = {});
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  /// Paints with coverage clamp(0.5 - distance(p), 0, 1) at each pixel's centre p inside the box (corners `low` and
  /// `high`): `distance` is negative inside the shape, in pixels. `color(p)` gives the paint. Pixels that are covered
  /// by half or more get the number `label`, unless it is negative.
  template <class Distance, class Color>
  void paint(Point low, Point high, Distance distance, Color color, float opacity = 1.0F, int label = -1) {
    const auto first = [](float v) { return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(v)) - 1); };
    const auto last = [](float v, std::int64_t top) {
      return std::min(top, static_cast<std::int64_t>(std::ceil(v)) + 1);
    };
    for (std::int64_t y = first(low.y); y < last(high.y, height_); ++y) {
      for (std::int64_t x = first(low.x); x < last(high.x, width_); ++x) {
        const Point p{static_cast<float>(x) + 0.5F, static_cast<float>(y) + 0.5F};
        const float coverage = std::clamp(0.5F - distance(p), 0.0F, 1.0F);
        if (coverage <= 0.0F) continue;
        const auto i = static_cast<std::size_t>(y * width_ + x);
        pixels_[i] = mix(pixels_[i], color(p), coverage * opacity);
        if (label >= 0 && coverage >= 0.5F) labels_[i] = static_cast<std::uint8_t>(label);
      }
    }
  }
  /// All of it.
  template <class Color>
  void fill(Color color) {
    paint(
        {0, 0}, {static_cast<float>(width_), static_cast<float>(height_)}, [](Point) { return -1.0F; }, color);
  }
  /// Round ends and joints.
  void polyline(const std::vector<Point>& points, float thickness, Rgb color, float opacity = 1.0F, int label = -1);

  /// (3, H, W), uint8.
  adjoint::Tensor image() const;
  /// (H, W), uint8.
  adjoint::Tensor labels() const;

 private:
  std::int64_t height_, width_;
  std::vector<Rgb> pixels_;
  std::vector<std::uint8_t> labels_;
};

/// The appearance of a surface: a colour, shaded from one side to the other, with a texture.
class Paint {
 public:
  explicit Paint(Dice& dice);
  /// Both its colours, moved towards `color` by this share.
  void tint(Rgb color, float share) {
    base_ = mix(base_, color, share);
    other_ = mix(other_, color, share);
  }
  Rgb operator()(Point p) const;

 private:
  float texture(Point p) const;
  float stripe(float t) const;

  Rgb base_, other_;
  Point across_, shade_;
  std::uint32_t seed_;
  std::int64_t kind_;
  float period_, depth_, shading_ = 0.0F, softness_ = 1.0F;
};

// ---- Distances to shapes around the origin, turned by nothing, in pixels; negative inside.

float disc_distance(Point p, float radius);
float ellipse_distance(Point p, float wide, float high);  // of half axes; exact on the edge alone
float box_distance(Point p, float wide, float high);      // of half extents
float polygon_distance(Point p, float radius, std::int64_t sides);
float star_distance(Point p, float radius, std::int64_t points);
float segment_distance(Point p, Point a, Point b);

/// p in coordinates around `centre` whose axes are turned by `turn`, in radians.
inline Point turned(Point p, Point centre, float turn) {
  const float dx = p.x - centre.x, dy = p.y - centre.y, c = std::cos(turn), s = std::sin(turn);
  return {c * dx + s * dy, c * dy - s * dx};
}

}  // namespace examples

// Shapes and pasted pictures. See stroke_font.cpp for text.
#include "canvas.h"

#include "stroke_font.h"

namespace super_resolution {
namespace {

float distance_to_segment(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float length2 = dx * dx + dy * dy;
  const float t = length2 > 0.0F ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0F, 1.0F) : 0.0F;
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

std::uint8_t to_byte(float value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 1.0F) * 255.0F + 0.5F); }

}  // namespace

Canvas::Canvas(std::int64_t height, std::int64_t width, Rgb background)
    : height_(height), width_(width), pixels_(static_cast<std::size_t>(height * width), background) {}

void Canvas::rectangle(Point low, Point high, Rgb color, float opacity) {
  const Point centre{(low.x + high.x) / 2, (low.y + high.y) / 2}, half{(high.x - low.x) / 2, (high.y - low.y) / 2};
  const auto distance = [&](Point p) {
    return std::max(std::abs(p.x - centre.x) - half.x, std::abs(p.y - centre.y) - half.y);
  };
  paint(
      low, high, distance, [&](Point) { return color; }, opacity);
}

void Canvas::disc(Point centre, float radius, Rgb color) {
  const auto distance = [&](Point p) { return std::hypot(p.x - centre.x, p.y - centre.y) - radius; };
  paint({centre.x - radius, centre.y - radius}, {centre.x + radius, centre.y + radius}, distance,
        [&](Point) { return color; });
}

void Canvas::polyline(const std::vector<Point>& points, float thickness, Rgb color, float opacity) {
  if (points.empty()) return;
  Point low = points.front(), high = points.front();
  for (const Point& p : points) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  const float r = thickness / 2;
  // All segments at once: painted one by one, their smooth edges would add up at the joints.
  const auto distance = [&](Point p) {
    float nearest = distance_to_segment(p, points.front(), points.front());
    for (std::size_t i = 1; i < points.size(); ++i) {
      nearest = std::min(nearest, distance_to_segment(p, points[i - 1], points[i]));
    }
    return nearest - r;
  };
  paint(
      {low.x - r, low.y - r}, {high.x + r, high.y + r}, distance, [&](Point) { return color; }, opacity);
}

void Canvas::text(Point at, float size, std::string_view text, Rgb color, float angle, float weight) {
  const float unit = size / kCapHeight, c = std::cos(angle), s = std::sin(angle);
  float pen = 0.0F;
  for (const char character : text) {
    const Glyph& glyph = glyph_of(character);
    for (const auto& stroke : glyph.strokes) {
      std::vector<Point> points;
      for (const Point& p : stroke) {
        const float x = (pen + p.x) * unit, y = -p.y * unit;
        points.push_back({at.x + c * x - s * y, at.y + s * x + c * y});
      }
      polyline(points, std::max(weight * size, 1.0F), color);
    }
    pen += glyph.advance;
  }
}

float Canvas::text_width(float size, std::string_view text) {
  float pen = 0.0F;
  for (const char character : text) pen += glyph_of(character).advance;
  return std::max(0.0F, pen - kGap) * size / kCapHeight;
}

void Canvas::paste(const adjoint::Tensor& image, std::int64_t left, std::int64_t top) {
  const std::int64_t h = image.size(1), w = image.size(2), plane = h * w;
  const auto* in = image.data<std::uint8_t>();
  for (std::int64_t y = std::max<std::int64_t>(0, -top); y < h && top + y < height_; ++y) {
    for (std::int64_t x = std::max<std::int64_t>(0, -left); x < w && left + x < width_; ++x) {
      const std::uint8_t* pixel = in + y * w + x;
      pixels_[static_cast<std::size_t>((top + y) * width_ + left + x)] =
          (1.0F / 255.0F) * Rgb{float(pixel[0]), float(pixel[plane]), float(pixel[2 * plane])};
    }
  }
}

adjoint::Tensor Canvas::image() const {
  adjoint::Tensor result = adjoint::Tensor::empty({3, height_, width_}, {.dtype = adjoint::kUInt8});
  auto* out = result.mutable_data<std::uint8_t>();
  const std::size_t plane = pixels_.size();
  for (std::size_t i = 0; i < plane; ++i) {
    out[i] = to_byte(pixels_[i].r);
    out[plane + i] = to_byte(pixels_[i].g);
    out[2 * plane + i] = to_byte(pixels_[i].b);
  }
  return result;
}

}  // namespace super_resolution

#include "common/paint.h"

#include <numbers>

namespace examples {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;

std::uint8_t to_byte(float value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 1.0F) * 255.0F + 0.5F); }

/// Smooth noise from -1 to 1: random values at whole coordinates, blended between them.
float value_noise(float x, float y, std::uint32_t seed) {
  const auto at = [seed](std::int32_t i, std::int32_t j) {
    std::uint32_t h = seed ^ static_cast<std::uint32_t>(i) * 0x9E3779B1U ^ static_cast<std::uint32_t>(j) * 0x85EBCA77U;
    h = (h ^ h >> 15) * 0x2C1B3C6DU;
    h = (h ^ h >> 12) * 0x297A2D39U;
    return static_cast<float>((h ^ h >> 15) & 0xffffU) / 32767.5F - 1.0F;
  };
  const float fx = std::floor(x), fy = std::floor(y);
  const auto i = static_cast<std::int32_t>(fx), j = static_cast<std::int32_t>(fy);
  const auto smooth = [](float t) { return t * t * (3.0F - 2.0F * t); };
  const float u = smooth(x - fx), v = smooth(y - fy);
  return std::lerp(std::lerp(at(i, j), at(i + 1, j), u), std::lerp(at(i, j + 1), at(i + 1, j + 1), u), v);
}

}  // namespace

Rgb Dice::color() {
  const float grey = between(0.03F, 0.97F), tint = between(0.0F, chance(0.3F) ? 0.6F : 0.2F);
  const float r = between(0, 1), g = between(0, 1), b = between(0, 1);
  return mix({grey, grey, grey}, {r, g, b}, tint);
}

Painting::Painting(std::int64_t height, std::int64_t width, Rgb background)
    : height_(height),
      width_(width),
      pixels_(static_cast<std::size_t>(height * width), background),
      labels_(static_cast<std::size_t>(height * width), 0) {}

void Painting::polyline(const std::vector<Point>& points, float thickness, Rgb color, float opacity, int label) {
  if (points.empty()) return;
  Point low = points.front(), high = points.front();
  for (const Point& p : points) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  const float r = thickness / 2;
  // Paints all segments together, because separate smooth edges would add up at the joints.
  const auto distance = [&](Point p) {
    float nearest = segment_distance(p, points.front(), points.front());
    for (std::size_t i = 1; i < points.size(); ++i)
      nearest = std::min(nearest, segment_distance(p, points[i - 1], points[i]));
    return nearest - r;
  };
  paint(
      {low.x - r, low.y - r}, {high.x + r, high.y + r}, distance, [&](Point) { return color; }, opacity, label);
}

adjoint::Tensor Painting::image() const {
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

adjoint::Tensor Painting::labels() const {
  adjoint::Tensor result = adjoint::Tensor::empty({height_, width_}, {.dtype = adjoint::kUInt8});
  std::copy(labels_.begin(), labels_.end(), result.mutable_data<std::uint8_t>());
  return result;
}

Paint::Paint(Dice& dice)
    : base_(dice.color()),
      other_(dice.color()),
      seed_(dice.bits()),
      kind_(dice.integer(0, 7)),
      period_(dice.log_between(2.5F, 24.0F)),
      depth_(dice.between(0.05F, 0.7F)) {
  const float turn = dice.between(0, 2 * kPi), waves = 1.0F / dice.between(100.0F, 800.0F);
  across_ = {std::cos(turn), std::sin(turn)};
  shade_ = {2 * kPi * waves * across_.y, 2 * kPi * waves * across_.x};
  shading_ = dice.chance(0.6F) ? dice.between(0.0F, 0.25F) : 0.0F;
  softness_ = dice.between(0.6F, 2.0F);
}

Rgb Paint::operator()(Point p) const {
  const float light = shading_ * (0.5F + 0.5F * std::sin(shade_.x * p.x + shade_.y * p.y));
  return mix(mix(base_, {1, 1, 1}, light), other_, depth_ * texture(p));
}

// Returns a texture from 0 to 1, band-limited, because a picture has no detail finer than its pixels.
float Paint::texture(Point p) const {
  const float u = (across_.x * p.x + across_.y * p.y) / period_, v = (across_.x * p.y - across_.y * p.x) / period_;
  const auto cell = [&] { return 2.0F * std::hypot(u - std::floor(u) - 0.5F, v - std::floor(v) - 0.5F); };
  switch (kind_) {
    case 0: return 0.5F + 0.5F * std::sin(2 * kPi * u);                                            // waves
    case 1: return stripe(u);                                                                      // stripes
    case 2: return std::abs(stripe(u) - stripe(v));                                                // a chessboard
    case 3: return std::max(0.0F, 1.0F - softness_ * cell());                                      // dots
    case 4: return 0.5F + 0.25F * (value_noise(2 * u, 2 * v, seed_) + value_noise(u, v, ~seed_));  // clouds
    case 5: return 0.5F + 0.5F * value_noise(4 * u, 0.5F * v, seed_);                              // fibres
    default: return 0.0F;                                                                          // smooth
  }
}

// Returns a wave that is 0 for half of its period and 1 for half, with edges one pixel wide.
float Paint::stripe(float t) const {
  const float nearest = 0.25F - std::abs(t - std::floor(t) - 0.5F);
  return std::clamp(0.5F + nearest * period_, 0.0F, 1.0F);
}

float disc_distance(Point p, float radius) { return std::hypot(p.x, p.y) - radius; }

float ellipse_distance(Point p, float wide, float high) {
  return (std::hypot(p.x / wide, p.y / high) - 1.0F) * std::min(wide, high);
}

float box_distance(Point p, float wide, float high) { return std::max(std::abs(p.x) - wide, std::abs(p.y) - high); }

float polygon_distance(Point p, float radius, std::int64_t sides) {
  const float sector = 2 * kPi / static_cast<float>(sides);
  const float angle = std::atan2(p.y, p.x), middle = sector * std::round(angle / sector);
  return std::hypot(p.x, p.y) * std::cos(angle - middle) - radius * std::cos(sector / 2);
}

// In the half sector between a tip and the notch beside it, the edge is one line.
float star_distance(Point p, float radius, std::int64_t points) {
  const float sector = 2 * kPi / static_cast<float>(points);
  const float angle = std::atan2(p.y, p.x), folded = std::abs(angle - sector * std::round(angle / sector));
  const float length = std::hypot(p.x, p.y), x = length * std::cos(folded), y = length * std::sin(folded);
  const float notch_x = 0.45F * radius * std::cos(sector / 2), notch_y = 0.45F * radius * std::sin(sector / 2);
  const float along_x = notch_x - radius, along_y = notch_y;
  return (along_y * (x - radius) - along_x * y) / std::hypot(along_x, along_y);
}

float segment_distance(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float length2 = dx * dx + dy * dy;
  const float t = length2 > 0.0F ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0F, 1.0F) : 0.0F;
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

}  // namespace examples

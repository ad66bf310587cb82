#include "common/shapes.h"

#include "common/paint.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace examples {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;
enum Class : int { kDisc, kRing, kSquare, kTriangle, kStar, kCross };

/// Full saturation; `hue` from 0 to 1.
Rgb hue_color(float hue) {
  const auto channel = [&](float shift) { return 0.5F + 0.5F * std::cos(2 * kPi * (hue - shift)); };
  return {channel(0.0F), channel(1.0F / 3), channel(2.0F / 3)};
}

float distance(Class kind, Point p, float radius) {
  switch (kind) {
    case kDisc: return disc_distance(p, radius);
    case kRing: return std::max(disc_distance(p, radius), -disc_distance(p, 0.55F * radius));
    case kSquare: return box_distance(p, 0.8F * radius, 0.8F * radius);
    case kTriangle: return polygon_distance(p, 1.15F * radius, 3);
    case kStar: return star_distance(p, 1.2F * radius, 5);
    case kCross: return std::min(box_distance(p, radius, 0.3F * radius), box_distance(p, 0.3F * radius, radius));
  }
  return 1.0F;
}

}  // namespace

const std::vector<std::string>& shape_classes() {
  static const std::vector<std::string> names{"disc", "ring", "square", "triangle", "star", "cross"};
  return names;
}

DrawnShape drawn_shape(std::uint64_t number) {
  Dice dice(number);
  Painting painting(kPictureExtent, kPictureExtent);
  const Rgb ground = dice.between(0.05F, 0.35F) * hue_color(dice.between(0, 1));
  const float slope = dice.between(0, 2 * kPi), shade = dice.between(0.0F, 0.25F);
  constexpr auto kMiddle = static_cast<float>(kPictureExtent) / 2;
  painting.fill([&](Point p) {
    const float along = ((p.x - kMiddle) * std::cos(slope) + (p.y - kMiddle) * std::sin(slope)) / kMiddle;
    return mix(ground, {1, 1, 1}, shade * std::clamp(0.5F + 0.5F * along, 0.0F, 1.0F));
  });
  const auto kind = static_cast<Class>(dice.integer(kDisc, kCross));
  const float radius = dice.between(7.0F, 11.0F), room = kMiddle - 1.2F * radius, turn = dice.between(0, 2 * kPi);
  const float x = kMiddle + dice.between(-room, room);
  const Point centre{x, kMiddle + dice.between(-room, room)};
  const Rgb color = mix(hue_color(dice.between(0, 1)), {1, 1, 1}, dice.between(0.1F, 0.4F));
  painting.paint(
      {0, 0}, {static_cast<float>(kPictureExtent), static_cast<float>(kPictureExtent)},
      [&](Point p) { return distance(kind, turned(p, centre, turn), radius); }, [&](Point) { return color; });
  return {painting.image(), kind};
}

}  // namespace examples

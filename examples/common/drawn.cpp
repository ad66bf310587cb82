#include "common/drawn.h"

#include "common/paint.h"
#include "common/stroke_font.h"

#include <adjoint/core/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace examples {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;
constexpr auto kExtent = static_cast<float>(kPictureExtent);
enum Class : int { kDisc, kRing, kSquare, kTriangle, kStar, kCross };

/// Full saturation; `hue` from 0 to 1.
Rgb hue_color(float hue) {
  const auto channel = [&](float shift) { return 0.5F + 0.5F * std::cos(2 * kPi * (hue - shift)); };
  return {channel(0.0F), channel(1.0F / 3), channel(2.0F / 3)};
}

Painting painted_ground(Dice& dice) {
  Painting painting(kPictureExtent, kPictureExtent);
  const float hue = dice.between(0, 1);  // a separate statement fixes the order of draws
  const Rgb ground = dice.between(0.05F, 0.35F) * hue_color(hue);
  const float slope = dice.between(0, 2 * kPi), shade = dice.between(0.0F, 0.25F);
  constexpr float kMiddle = kExtent / 2;
  painting.fill([&](Point p) {
    const float along = ((p.x - kMiddle) * std::cos(slope) + (p.y - kMiddle) * std::sin(slope)) / kMiddle;
    return mix(ground, {1, 1, 1}, shade * std::clamp(0.5F + 0.5F * along, 0.0F, 1.0F));
  });
  return painting;
}

/// A bright colour, from which every ground differs.
Rgb bright_color(Dice& dice) {
  const float white = dice.between(0.1F, 0.4F);
  return mix(hue_color(dice.between(0, 1)), {1, 1, 1}, white);
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

const std::array<DrawnSet, 2>& all_sets() {
  static const std::array<DrawnSet, 2> sets{{
      {"shapes", {"disc", "ring", "square", "triangle", "star", "cross"}, drawn_shape},
      {"digits", {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, drawn_digit},
  }};
  return sets;
}

}  // namespace

DrawnPicture drawn_shape(std::uint64_t number) {
  Dice dice(number);
  Painting painting = painted_ground(dice);
  constexpr float kMiddle = kExtent / 2;
  const auto kind = static_cast<Class>(dice.integer(kDisc, kCross));
  const float radius = dice.between(7.0F, 11.0F), room = kMiddle - 1.2F * radius, turn = dice.between(0, 2 * kPi);
  const float x = kMiddle + dice.between(-room, room);
  const Point centre{x, kMiddle + dice.between(-room, room)};
  const Rgb color = bright_color(dice);
  painting.paint(
      {0, 0}, {kExtent, kExtent}, [&](Point p) { return distance(kind, turned(p, centre, turn), radius); },
      [&](Point) { return color; });
  return {painting.image(), kind};
}

DrawnPicture drawn_digit(std::uint64_t number) {
  Dice dice(number);
  Painting painting = painted_ground(dice);
  const Rgb color = bright_color(dice);
  const std::int64_t digit = dice.integer(0, 9);
  const float height = dice.between(13.0F, 21.0F), width = dice.between(0.75F, 1.2F), slant = dice.between(-0.1F, 0.4F);
  const float turn = dice.between(-0.15F, 0.15F), thickness = height * dice.between(0.08F, 0.18F);
  // Strokes bend by at most half of the font's unit, over about the digit's height.
  const float bend = dice.between(0.0F, 0.5F), phase = dice.between(0, 2 * kPi), unit = height / 6.0F;
  std::vector<std::vector<Point>> strokes = strokes_of(static_cast<char>('0' + digit));
  Point low{kExtent, kExtent}, high{-kExtent, -kExtent};
  for (auto& stroke : strokes) {
    for (Point& p : stroke) {
      const Point bent{width * (p.x + bend * std::sin(0.8F * p.y + phase)),
                       p.y + 0.5F * bend * std::sin(1.2F * p.x + 2 * phase)};
      p = turned({unit * (bent.x + slant * bent.y), -unit * bent.y}, {0, 0}, turn);
      low = {std::min(low.x, p.x), std::min(low.y, p.y)};
      high = {std::max(high.x, p.x), std::max(high.y, p.y)};
    }
  }
  // The digit may be anywhere, but is all inside.
  const auto shift = [&](float first, float last) {
    const float edge = 0.5F * thickness + 1.0F;
    return dice.between(edge - first, std::max(edge - first, kExtent - edge - last));
  };
  const float right = shift(low.x, high.x), down = shift(low.y, high.y);
  for (auto& stroke : strokes) {
    for (Point& p : stroke) p = {p.x + right, p.y + down};
    painting.polyline(stroke, thickness, color);
  }
  return {painting.image(), digit};
}

std::vector<std::string> drawn_sets() {
  std::vector<std::string> names;
  for (const DrawnSet& set : all_sets()) names.push_back(set.name);
  return names;
}

const DrawnSet& drawn_set(const std::string& name) {
  for (const DrawnSet& set : all_sets()) {
    if (set.name == name) return set;
  }
  throw adjoint::Error(
      fmt::format("drawn_set: the set must be one of {}; got '{}'", fmt::join(drawn_sets(), ", "), name));
}

}  // namespace examples

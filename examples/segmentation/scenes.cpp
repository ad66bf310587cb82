#include "scenes.h"

#include "common/paint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace segmentation {
namespace {

using examples::Dice;
using examples::Paint;
using examples::Painting;
using examples::Point;

constexpr float kPi = std::numbers::pi_v<float>;
enum Class : int { kBackground, kDisc, kSquare, kStar, kWire };

// The hues to which the shapes' colours tend.
constexpr std::array<examples::Rgb, 5> kHues{
    {{}, {0.85F, 0.3F, 0.2F}, {0.2F, 0.4F, 0.85F}, {0.9F, 0.75F, 0.2F}, {0.2F, 0.7F, 0.35F}}};

Point anywhere(const Painting& painting, Dice& dice) {
  const float x = dice.between(0, static_cast<float>(painting.width()));
  return {x, dice.between(0, static_cast<float>(painting.height()))};
}

void draw_shape(Painting& painting, Dice& dice, Class kind) {
  const Point centre = anywhere(painting, dice);
  const float radius = dice.log_between(7.0F, 24.0F), turn = dice.between(0, 2 * kPi);
  // Another surface is seen through a hole; it has the background's class.
  const float hole = kind != kStar && dice.chance(0.25F) ? dice.between(0.3F, 0.6F) * radius : 0.0F;
  const auto points = dice.integer(5, 7);
  const auto distance = [&](Point p) {
    const Point q = examples::turned(p, centre, turn);
    float d = 0.0F;
    if (kind == kDisc) d = examples::disc_distance(q, radius);
    if (kind == kSquare) d = examples::box_distance(q, 0.8F * radius, 0.8F * radius);
    if (kind == kStar) d = examples::star_distance(q, 1.2F * radius, points);
    return hole > 0.0F ? std::max(d, hole - std::hypot(q.x, q.y)) : d;
  };
  const float reach = 1.5F * radius;
  Paint paint(dice);
  paint.tint(kHues[kind], dice.between(0.0F, 0.7F));
  painting.paint({centre.x - reach, centre.y - reach}, {centre.x + reach, centre.y + reach}, distance, paint, 1.0F,
                 kind);
}

void draw_wire(Painting& painting, Dice& dice) {
  std::vector<Point> points{anywhere(painting, dice)};
  float heading = dice.between(0, 2 * kPi);
  const float bend = dice.between(-0.12F, 0.12F), step = dice.between(3.0F, 6.0F);
  for (std::int64_t i = dice.integer(8, 28); i > 0; --i) {
    heading += bend + dice.between(-0.06F, 0.06F);
    points.push_back({points.back().x + step * std::cos(heading), points.back().y + step * std::sin(heading)});
  }
  const float thickness = dice.between(1.2F, 3.0F);
  painting.polyline(points, thickness, examples::mix(dice.color(), kHues[kWire], dice.between(0.0F, 0.7F)), 1.0F,
                    kWire);
}

/// A patch of another surface that is still background.
void draw_clutter(Painting& painting, Dice& dice) {
  const Point centre = anywhere(painting, dice);
  const float wide = dice.between(12.0F, 60.0F), high = 0.35F * wide, turn = dice.between(0, kPi);
  painting.paint(
      {centre.x - wide, centre.y - wide}, {centre.x + wide, centre.y + wide},
      [&](Point p) { return examples::ellipse_distance(examples::turned(p, centre, turn), wide, high); }, Paint(dice),
      1.0F, kBackground);
}

}  // namespace

const std::vector<std::string>& scene_classes() {
  static const std::vector<std::string> names{"background", "disc", "square", "star", "wire"};
  return names;
}

Scene drawn_scene(std::uint64_t number, std::int64_t height, std::int64_t width) {
  Dice dice(number);
  Painting painting(height, width);
  painting.fill(Paint(dice));
  // The number per pixel is the same in pictures of every size.
  const auto count = [&](float low, float high) {
    const float area = static_cast<float>(height * width) / (128.0F * 128.0F);
    return static_cast<std::int64_t>(std::ceil(dice.between(low, high) * area));
  };
  for (std::int64_t i = count(0, 3); i > 0; --i) draw_clutter(painting, dice);
  for (std::int64_t i = count(4, 9); i > 0; --i) {
    const auto kind = static_cast<Class>(dice.integer(kDisc, kWire));
    if (kind == kWire)
      draw_wire(painting, dice);
    else
      draw_shape(painting, dice, kind);
  }
  return {painting.image(), painting.labels().unsqueeze(0)};
}

}  // namespace segmentation

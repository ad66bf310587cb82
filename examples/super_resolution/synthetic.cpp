// Draws the generated pictures.
#include "synthetic.h"

#include "common/paint.h"
#include "common/stroke_font.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace super_resolution {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;

using examples::Dice;
using examples::mix;
using examples::Paint;
using examples::Painting;
using examples::Point;
using examples::Rgb;

void draw_leaf(Painting& painting, Dice& dice, float radius) {
  const Point centre{dice.between(0, static_cast<float>(painting.width())),
                     dice.between(0, static_cast<float>(painting.height()))};
  const float turn = dice.between(0, kPi), c = std::cos(turn), s = std::sin(turn);
  const float narrow = radius * dice.between(0.3F, 1.0F);
  const auto sides = dice.integer(3, 6);
  const auto kind = dice.integer(0, 3);
  const auto distance = [&](Point p) {
    const float dx = p.x - centre.x, dy = p.y - centre.y;
    const float u = c * dx + s * dy, v = c * dy - s * dx;
    switch (kind) {
      case 0: return std::hypot(u, v) - radius;
      case 1: return (std::hypot(u / radius, v / narrow) - 1.0F) * narrow;
      case 2: return std::max(std::abs(u) - radius, std::abs(v) - narrow);
      default: {  // a regular polygon
        const float sector = 2 * kPi / static_cast<float>(sides);
        const float angle = std::atan2(v, u), middle = sector * std::round(angle / sector);
        return std::hypot(u, v) * std::cos(angle - middle) - radius * std::cos(sector / 2);
      }
    }
  };
  const float reach = 1.5F * radius;
  painting.paint({centre.x - reach, centre.y - reach}, {centre.x + reach, centre.y + reach}, distance, Paint(dice));
}

void draw_leaves(Painting& painting, Dice& dice) {
  const float area = static_cast<float>(painting.height() * painting.width());
  float covered = 0.0F;
  const float wanted = area * dice.between(1.0F, 3.0F), smallest = dice.between(2.0F, 6.0F);
  while (covered < wanted) {
    // Radii distributed as r^-3 between the bounds, which makes the scene look the same at every scale.
    const float largest = 0.3F * static_cast<float>(std::min(painting.height(), painting.width()));
    const float t = dice.between(0, 1), a = 1.0F / (smallest * smallest), b = 1.0F / (largest * largest);
    const float radius = 1.0F / std::sqrt(a + t * (b - a));
    draw_leaf(painting, dice, radius);
    covered += 2.0F * radius * radius;
  }
}

void draw_curves(Painting& painting, Dice& dice) {
  const auto width = static_cast<float>(painting.width()), height = static_cast<float>(painting.height());
  for (std::int64_t count = dice.integer(0, 10); count > 0; --count) {
    std::vector<Point> points{{dice.between(0, width), dice.between(0, height)}};
    float heading = dice.between(0, 2 * kPi);
    const float bend = dice.between(-0.15F, 0.15F), step = dice.between(3.0F, 8.0F);
    for (std::int64_t i = dice.integer(4, 24); i > 0; --i) {
      heading += bend;
      points.push_back({points.back().x + step * std::cos(heading), points.back().y + step * std::sin(heading)});
    }
    painting.polyline(points, dice.log_between(0.8F, 4.0F), dice.color());
  }
}

std::string random_word(Dice& dice) {
  constexpr std::string_view kVowels = "aeiou", kConsonants = "bcdfghjklmnpqrstvwxyz", kDigits = "0123456789";
  const auto any = [&](std::string_view from) {
    return from[static_cast<std::size_t>(dice.integer(0, std::ssize(from) - 1))];
  };
  std::string word;
  if (dice.chance(0.12F)) {
    for (std::int64_t i = dice.integer(1, 4); i > 0; --i) word += any(kDigits);
    return word;
  }
  for (std::int64_t i = dice.integer(1, 4); i > 0; --i) {
    word += any(kConsonants);
    word += any(kVowels);
    if (dice.chance(0.3F)) word += any(kConsonants);
  }
  if (dice.chance(0.2F)) word[0] = static_cast<char>(word[0] - 'a' + 'A');
  if (dice.chance(0.1F)) word += any(".,:!?");
  return word;
}

std::string random_words(Dice& dice, std::int64_t count) {
  std::string line = random_word(dice);
  for (std::int64_t i = 1; i < count; ++i) line += ' ' + random_word(dice);
  return line;
}

void draw_labels(Painting& painting, Dice& dice) {
  for (std::int64_t count = dice.integer(0, 4); count > 0; --count) {
    const Point at{dice.between(0, 0.7F * static_cast<float>(painting.width())),
                   dice.between(0, static_cast<float>(painting.height()))};
    const float angle = dice.chance(0.5F) ? 0.0F : dice.between(-kPi / 2, kPi / 2);
    paint_text(painting, at, dice.log_between(5.0F, 40.0F), random_words(dice, dice.integer(1, 3)), dice.color(), angle,
               dice.between(0.09F, 0.22F));
  }
}

void draw_page(Painting& painting, Dice& dice) {
  const Rgb ink = dice.between(0.0F, 0.3F) * dice.color();
  const auto height = static_cast<float>(painting.height());
  const float angle = dice.chance(0.7F) ? 0.0F : dice.between(-0.15F, 0.15F), margin = dice.between(4.0F, 16.0F);
  for (float y = margin; y < height + 20.0F;) {
    const float size = dice.chance(0.15F) ? dice.between(12.0F, 24.0F) : dice.between(5.0F, 9.0F);
    y += size * 2.0F;
    paint_text(painting, {margin, y}, size, random_words(dice, dice.integer(3, 12)), ink, angle,
               dice.between(0.10F, 0.18F));
  }
}

/// Rings whose period shrinks towards the rim: every frequency in every direction.
void draw_zone_plate(Painting& painting, Dice& dice) {
  const auto width = static_cast<float>(painting.width()), height = static_cast<float>(painting.height());
  const Point centre{dice.between(0, width), dice.between(0, height)};
  const float highest = dice.between(0.5F, 0.9F) * kPi / std::max(width, height);
  const Rgb dark = dice.color(), bright = dice.color();
  painting.paint(
      {0, 0}, {width, height}, [](Point) { return -1.0F; },
      [&](Point p) {
        const float r2 = (p.x - centre.x) * (p.x - centre.x) + (p.y - centre.y) * (p.y - centre.y);
        return mix(dark, bright, 0.5F + 0.5F * std::cos(0.5F * highest * r2));
      });
}

}  // namespace

adjoint::Tensor synthetic_picture(std::uint64_t number, std::int64_t height, std::int64_t width) {
  Dice dice(number);
  Painting painting(height, width);
  const Point corner{static_cast<float>(width), static_cast<float>(height)};
  painting.paint(
      {0, 0}, corner, [](Point) { return -1.0F; }, Paint(dice));
  const float kind = dice.between(0, 1);
  if (kind < 0.75F) {
    draw_leaves(painting, dice);
    draw_curves(painting, dice);
    draw_labels(painting, dice);
  } else if (kind < 0.93F) {
    const Rgb paper = mix(dice.color(), {1, 1, 1}, 0.8F);
    painting.paint(
        {0, 0}, corner, [](Point) { return -1.0F; }, [&](Point) { return paper; }, dice.between(0.7F, 1.0F));
    draw_page(painting, dice);
  } else {
    draw_zone_plate(painting, dice);
    draw_labels(painting, dice);
  }
  return painting.image();
}

}  // namespace super_resolution

// Draws the made pictures.
#include "synthetic.h"

#include "canvas.h"

#include <adjoint/core/random.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace super_resolution {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}
  float between(float low, float high) { return low + (high - low) * static_cast<float>(generator_.uniform()); }
  std::int64_t integer(std::int64_t low, std::int64_t high) {  // both included
    return low + static_cast<std::int64_t>(generator_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool chance(float probability) { return between(0, 1) < probability; }
  /// As likely between 2 and 4 as between 4 and 8.
  float log_between(float low, float high) { return low * std::pow(high / low, between(0, 1)); }
  Rgb color() {
    // Photographs have few saturated colours: mostly a grey with a tint.
    const float grey = between(0.03F, 0.97F), tint = between(0.0F, chance(0.3F) ? 0.6F : 0.2F);
    return mix({grey, grey, grey}, {between(0, 1), between(0, 1), between(0, 1)}, tint);
  }
  std::uint32_t bits() { return static_cast<std::uint32_t>(generator_.next()); }

 private:
  adjoint::Generator generator_;
};

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

/// What a surface looks like: a colour, shaded from one side to the other, with a texture.
class Paint {
 public:
  explicit Paint(Dice& dice)
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

  Rgb operator()(Point p) const {
    const float light = shading_ * (0.5F + 0.5F * std::sin(shade_.x * p.x + shade_.y * p.y));
    return mix(mix(base_, {1, 1, 1}, light), other_, depth_ * texture(p));
  }

 private:
  // From 0 to 1; band-limited, for a picture holds no detail finer than its pixels.
  float texture(Point p) const {
    const float u = (across_.x * p.x + across_.y * p.y) / period_, v = (across_.x * p.y - across_.y * p.x) / period_;
    switch (kind_) {
      case 0: return 0.5F + 0.5F * std::sin(2 * kPi * u);                                            // waves
      case 1: return stripe(u);                                                                      // stripes
      case 2: return std::abs(stripe(u) - stripe(v));                                                // a chessboard
      case 3: return std::max(0.0F, 1.0F - softness_ * cell(u, v));                                  // dots
      case 4: return 0.5F + 0.25F * (value_noise(2 * u, 2 * v, seed_) + value_noise(u, v, ~seed_));  // clouds
      case 5: return 0.5F + 0.5F * value_noise(4 * u, 0.5F * v, seed_);                              // fibres
      default: return 0.0F;                                                                          // smooth
    }
  }
  float stripe(float t) const {  // half its period 0, half 1, with edges one pixel wide
    const float nearest = 0.25F - std::abs(t - std::floor(t) - 0.5F);
    return std::clamp(0.5F + nearest * period_, 0.0F, 1.0F);
  }
  static float cell(float u, float v) { return 2.0F * std::hypot(u - std::floor(u) - 0.5F, v - std::floor(v) - 0.5F); }

  Rgb base_, other_;
  Point across_, shade_;
  std::uint32_t seed_;
  std::int64_t kind_;
  float period_, depth_, shading_ = 0.0F, softness_ = 1.0F;
};

void draw_leaf(Canvas& canvas, Dice& dice, float radius) {
  const Point centre{dice.between(0, static_cast<float>(canvas.width())),
                     dice.between(0, static_cast<float>(canvas.height()))};
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
  canvas.paint({centre.x - reach, centre.y - reach}, {centre.x + reach, centre.y + reach}, distance, Paint(dice));
}

void draw_leaves(Canvas& canvas, Dice& dice) {
  const float area = static_cast<float>(canvas.height() * canvas.width());
  float covered = 0.0F;
  const float wanted = area * dice.between(1.0F, 3.0F), smallest = dice.between(2.0F, 6.0F);
  while (covered < wanted) {
    // Radii distributed as r^-3 between the bounds, which makes the scene look the same at every scale.
    const float largest = 0.3F * static_cast<float>(std::min(canvas.height(), canvas.width()));
    const float t = dice.between(0, 1), a = 1.0F / (smallest * smallest), b = 1.0F / (largest * largest);
    const float radius = 1.0F / std::sqrt(a + t * (b - a));
    draw_leaf(canvas, dice, radius);
    covered += 2.0F * radius * radius;
  }
}

void draw_curves(Canvas& canvas, Dice& dice) {
  const auto width = static_cast<float>(canvas.width()), height = static_cast<float>(canvas.height());
  for (std::int64_t count = dice.integer(0, 10); count > 0; --count) {
    std::vector<Point> points{{dice.between(0, width), dice.between(0, height)}};
    float heading = dice.between(0, 2 * kPi);
    const float bend = dice.between(-0.15F, 0.15F), step = dice.between(3.0F, 8.0F);
    for (std::int64_t i = dice.integer(4, 24); i > 0; --i) {
      heading += bend;
      points.push_back({points.back().x + step * std::cos(heading), points.back().y + step * std::sin(heading)});
    }
    canvas.polyline(points, dice.log_between(0.8F, 4.0F), dice.color());
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

void draw_labels(Canvas& canvas, Dice& dice) {
  for (std::int64_t count = dice.integer(0, 4); count > 0; --count) {
    const Point at{dice.between(0, 0.7F * static_cast<float>(canvas.width())),
                   dice.between(0, static_cast<float>(canvas.height()))};
    const float angle = dice.chance(0.5F) ? 0.0F : dice.between(-kPi / 2, kPi / 2);
    canvas.text(at, dice.log_between(5.0F, 40.0F), random_words(dice, dice.integer(1, 3)), dice.color(), angle,
                dice.between(0.09F, 0.22F));
  }
}

void draw_page(Canvas& canvas, Dice& dice) {
  const Rgb ink = dice.between(0.0F, 0.3F) * dice.color();
  const auto height = static_cast<float>(canvas.height());
  const float angle = dice.chance(0.7F) ? 0.0F : dice.between(-0.15F, 0.15F), margin = dice.between(4.0F, 16.0F);
  for (float y = margin; y < height + 20.0F;) {
    const float size = dice.chance(0.15F) ? dice.between(12.0F, 24.0F) : dice.between(5.0F, 9.0F);
    y += size * 2.0F;
    canvas.text({margin, y}, size, random_words(dice, dice.integer(3, 12)), ink, angle, dice.between(0.10F, 0.18F));
  }
}

/// Rings whose period shrinks towards the rim: every frequency in every direction.
void draw_zone_plate(Canvas& canvas, Dice& dice) {
  const auto width = static_cast<float>(canvas.width()), height = static_cast<float>(canvas.height());
  const Point centre{dice.between(0, width), dice.between(0, height)};
  const float highest = dice.between(0.5F, 0.9F) * kPi / std::max(width, height);
  const Rgb dark = dice.color(), bright = dice.color();
  canvas.paint(
      {0, 0}, {width, height}, [](Point) { return -1.0F; },
      [&](Point p) {
        const float r2 = (p.x - centre.x) * (p.x - centre.x) + (p.y - centre.y) * (p.y - centre.y);
        return mix(dark, bright, 0.5F + 0.5F * std::cos(0.5F * highest * r2));
      });
}

}  // namespace

adjoint::Tensor synthetic_picture(std::uint64_t number, std::int64_t height, std::int64_t width) {
  Dice dice(number);
  Canvas canvas(height, width);
  const Point corner{static_cast<float>(width), static_cast<float>(height)};
  canvas.paint(
      {0, 0}, corner, [](Point) { return -1.0F; }, Paint(dice));
  const float kind = dice.between(0, 1);
  if (kind < 0.75F) {
    draw_leaves(canvas, dice);
    draw_curves(canvas, dice);
    draw_labels(canvas, dice);
  } else if (kind < 0.93F) {
    const Rgb paper = mix(dice.color(), {1, 1, 1}, 0.8F);
    canvas.rectangle({0, 0}, corner, paper, dice.between(0.7F, 1.0F));
    draw_page(canvas, dice);
  } else {
    draw_zone_plate(canvas, dice);
    draw_labels(canvas, dice);
  }
  return canvas.image();
}

}  // namespace super_resolution

// The font's table and its curves.
#include "common/stroke_font.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace examples {
namespace {

/// Units of the font: capitals are 6 high, lower-case letters 4, and 2 hang below the line.
constexpr float kCapHeight = 6.0F;
/// Between two characters.
constexpr float kGap = 2.0F;

struct Glyph {
  std::vector<std::vector<Point>> strokes;  // y upwards from the line
  float advance = 4.0F;                     // to the next character, the gap included
};

struct Entry {
  char character;
  // Strokes, separated by spaces, as points of two digits (x, y); the line is at y = 2. After ~, the points control a
  // quadratic B-spline, which touches the middle of each edge of their polygon.
  std::string_view strokes;
};

constexpr Entry kTable[] = {
    {'A', "022842 1535"},
    {'B', "0208 ~08383505 ~05454202"},
    {'C', "~474808024243"},
    {'D', "0208 ~08484202"},
    {'E', "48080242 0535"},
    {'F', "480802 0535"},
    {'G', "~474808024245 4525"},
    {'H', "0208 4248 0545"},
    {'I', "0208"},
    {'J', "~38320203"},
    {'K', "0208 4804 1542"},
    {'L', "080242"},
    {'M', "0208244842"},
    {'N', "02084248"},
    {'O', "~284842020828"},
    {'P', "0208 ~08484505"},
    {'Q', "~284842020828 2442"},
    {'R', "0208 ~08484505 2542"},
    {'S', "~4748080545420203"},
    {'T', "0848 2822"},
    {'U', "~08024248"},
    {'V', "082248"},
    {'W', "0812263248"},
    {'X', "0248 0842"},
    {'Y', "0825 482522"},
    {'Z', "08480242"},
    {'a', "~444606024244 4642"},
    {'b', "0802 ~040646420204"},
    {'c', "~454606024243"},
    {'d', "4842 ~444606024244"},
    {'e', "0444 ~444606024243"},
    {'f', "~381815 1512 0636"},
    {'g', "~444606024244 ~46400001"},
    {'h', "0802 ~04064642"},
    {'i', "0602 0808"},
    {'j', "~161000 1818"},
    {'k', "0802 3603 1432"},
    {'l', "0802"},
    {'m', "0602 ~04063632 ~34366662"},
    {'n', "0602 ~04064642"},
    {'o', "~264642020626"},
    {'p', "0600 ~040646420204"},
    {'q', "4640 ~444606024244"},
    {'r', "0602 ~040636"},
    {'s', "~3536060434320203"},
    {'t', "~181232 0636"},
    {'u', "~06024244 4642"},
    {'v', "062246"},
    {'w', "0612243246"},
    {'x', "0246 0642"},
    {'y', "0622 4610"},
    {'z', "06460242"},
    {'0', "~050838320205"},
    {'1', "071812"},
    {'2', "~0708484502 0242"},
    {'3', "~0708484525 ~2545420203"},
    {'4', "32380444"},
    {'5', "480805 ~0546420203"},
    {'6', "~480802424505"},
    {'7', "084812"},
    {'8', "~250508484525 ~250502424525"},
    {'9', "~024248080545"},
    {'.', "0202"},
    {',', "1201"},
    {':', "0202 0505"},
    {'-', "0535"},
    {'+', "0545 2723"},
    {'=', "0444 0646"},
    {'/', "0138"},
    {'(', "~28070120"},
    {')', "~08272100"},
    {'!', "0804 0202"},
    {'?', "~0708484525 2524 2222"},
    {'\'', "0806"},
};

/// Chaikin's corner cutting (1974): three rounds are smooth at any size drawn here. The end points are kept.
std::vector<Point> smoothed(std::vector<Point> points) {
  for (int round = 0; round < 3; ++round) {
    std::vector<Point> cut{points.front()};
    for (std::size_t i = 1; i < points.size(); ++i) {
      const Point a = points[i - 1], b = points[i];
      if (i > 1) cut.push_back({0.75F * a.x + 0.25F * b.x, 0.75F * a.y + 0.25F * b.y});
      if (i + 1 < points.size()) cut.push_back({0.25F * a.x + 0.75F * b.x, 0.25F * a.y + 0.75F * b.y});
    }
    cut.push_back(points.back());
    points = std::move(cut);
  }
  return points;
}

Glyph parsed(std::string_view text) {
  constexpr float kLine = 2.0F;
  Glyph glyph;
  float right = 0.0F;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view stroke = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool curved = stroke.front() == '~';
    if (curved) stroke.remove_prefix(1);
    std::vector<Point> points;
    for (std::size_t i = 0; i + 1 < stroke.size(); i += 2) {
      points.push_back({static_cast<float>(stroke[i] - '0'), static_cast<float>(stroke[i + 1] - '0') - kLine});
      right = std::max(right, points.back().x);
    }
    glyph.strokes.push_back(curved ? smoothed(std::move(points)) : std::move(points));
  }
  glyph.advance = right + kGap;
  return glyph;
}

/// An empty glyph for characters that the font lacks.
const Glyph& glyph_of(char character) {
  static const std::array<Glyph, 128> glyphs = [] {
    std::array<Glyph, 128> all;
    for (const Entry& entry : kTable) all[static_cast<std::size_t>(entry.character)] = parsed(entry.strokes);
    return all;
  }();
  static const Glyph gap;
  const auto code = static_cast<unsigned char>(character);
  return code < glyphs.size() ? glyphs[code] : gap;
}

}  // namespace

const std::vector<std::vector<Point>>& strokes_of(char character) { return glyph_of(character).strokes; }

void paint_text(Painting& painting, Point at, float size, std::string_view text, Rgb color, float angle, float weight) {
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
      painting.polyline(points, std::max(weight * size, 1.0F), color);
    }
    pen += glyph.advance;
  }
}

}  // namespace examples

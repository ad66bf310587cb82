// Drawing reports with Cairo: shapes, labels and pictures. paint.h draws training data; it needs no Cairo and no font,
// and its pictures are the same everywhere.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace examples {

/// Red, green, blue, from 0 to 1.
struct Rgb {
  float r = 0, g = 0, b = 0;
};

/// x to the right, y downwards, in pixels; pixel (0, 0) covers [0, 1) x [0, 1).
struct Point {
  float x = 0, y = 0;
};

inline constexpr Rgb kInk{0.13F, 0.15F, 0.19F}, kSoft{0.42F, 0.45F, 0.50F}, kPale{0.88F, 0.89F, 0.91F},
    kPaper{1.0F, 1.0F, 1.0F};
inline constexpr Rgb kBlue{0.10F, 0.40F, 0.80F}, kOrange{0.90F, 0.45F, 0.10F}, kGreen{0.13F, 0.55F, 0.30F},
    kPurple{0.50F, 0.25F, 0.65F};

/// Returns true if this build has Cairo. Without it, constructing a Canvas throws Error.
bool can_draw();

enum class Align : std::uint8_t { kLeft, kCentre, kRight };

struct TextOptions {
  double size = 12.0;  // of the font, in pixels
  Rgb color = kInk;
  Align align = Align::kLeft;
  bool bold = false;
};

/// A picture being drawn. Parts outside it are clipped.
class Canvas {
 public:
  /// Throws Error for extents that Cairo cannot have.
  Canvas(std::int64_t height, std::int64_t width, Rgb background = kPaper);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  void rectangle(Point low, Point high, Rgb color);
  void disc(Point centre, double radius, Rgb color);
  /// Round ends and joints; dashes of the given length, unless it is 0.
  void polyline(const std::vector<Point>& points, double thickness, Rgb color, double dash = 0.0);
  /// The line's foot is at `at`.
  void text(Point at, const std::string& text, const TextOptions& options = {});
  double text_width(const std::string& text, const TextOptions& options = {});
  /// Copies a picture (1 or 3, h, w), uint8, in with its top left corner at (left, top), each pixel `zoom` x `zoom`.
  void paste(const adjoint::Tensor& image, std::int64_t left, std::int64_t top, std::int64_t zoom = 1);

  /// (3, H, W), uint8.
  adjoint::Tensor image() const;

 private:
  struct Cairo;
  std::unique_ptr<Cairo> cairo_;
  std::int64_t height_, width_;
};

}  // namespace examples

#include "common/canvas.h"

#include <adjoint/core/base/error.h>

#include <fmt/format.h>

#include <algorithm>

#if EXAMPLES_WITH_CAIRO
#include <cairo.h>

namespace examples {

bool can_draw() { return true; }

struct Canvas::Cairo {
  cairo_surface_t* surface = nullptr;
  cairo_t* context = nullptr;

  Cairo() = default;
  Cairo(const Cairo&) = delete;
  Cairo& operator=(const Cairo&) = delete;
  ~Cairo() {
    cairo_destroy(context);
    cairo_surface_destroy(surface);
  }
  void color(Rgb c) const {
    cairo_set_source_rgb(context, static_cast<double>(c.r), static_cast<double>(c.g), static_cast<double>(c.b));
  }
  void font(const TextOptions& options) const {
    cairo_select_font_face(context, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           options.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(context, options.size);
  }
};

Canvas::Canvas(std::int64_t height, std::int64_t width, Rgb background)
    : cairo_(std::make_unique<Cairo>()), height_(height), width_(width) {
  constexpr std::int64_t kLargest = 32767;  // Cairo's limit
  if (std::min(height, width) < 1 || std::max(height, width) > kLargest)
    throw adjoint::Error(fmt::format("Canvas: extents must be from 1 to {}; got {} x {}", kLargest, height, width));
  cairo_->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height));
  cairo_->context = cairo_create(cairo_->surface);
  if (cairo_status(cairo_->context) != CAIRO_STATUS_SUCCESS)
    throw adjoint::OutOfMemoryError(fmt::format("Canvas: no memory for {} x {} pixels", height, width));
  cairo_set_line_cap(cairo_->context, CAIRO_LINE_CAP_ROUND);
  cairo_set_line_join(cairo_->context, CAIRO_LINE_JOIN_ROUND);
  cairo_->color(background);
  cairo_paint(cairo_->context);
}

Canvas::~Canvas() = default;

void Canvas::rectangle(Point low, Point high, Rgb color) {
  cairo_->color(color);
  cairo_rectangle(cairo_->context, low.x, low.y, high.x - low.x, high.y - low.y);
  cairo_fill(cairo_->context);
}

void Canvas::disc(Point centre, double radius, Rgb color) {
  cairo_->color(color);
  cairo_arc(cairo_->context, centre.x, centre.y, radius, 0.0, 6.283185307179586);
  cairo_fill(cairo_->context);
}

void Canvas::polyline(const std::vector<Point>& points, double thickness, Rgb color, double dash) {
  if (points.empty()) return;
  cairo_->color(color);
  cairo_set_line_width(cairo_->context, thickness);
  cairo_set_dash(cairo_->context, &dash, dash > 0.0 ? 1 : 0, 0.0);
  cairo_move_to(cairo_->context, points.front().x, points.front().y);
  for (const Point& p : points) cairo_line_to(cairo_->context, p.x, p.y);
  cairo_stroke(cairo_->context);
}

double Canvas::text_width(const std::string& text, const TextOptions& options) {
  cairo_->font(options);
  cairo_text_extents_t extents;
  cairo_text_extents(cairo_->context, text.c_str(), &extents);
  return extents.x_advance;
}

void Canvas::text(Point at, const std::string& text, const TextOptions& options) {
  const double width = text_width(text, options);
  const double shift = options.align == Align::kLeft ? 0.0 : options.align == Align::kCentre ? width / 2 : width;
  cairo_->color(options.color);
  cairo_move_to(cairo_->context, at.x - shift, at.y);
  cairo_show_text(cairo_->context, text.c_str());
}

void Canvas::paste(const adjoint::Tensor& image, std::int64_t left, std::int64_t top, std::int64_t zoom) {
  const adjoint::Tensor picture = image.contiguous();
  const std::int64_t h = picture.size(1), w = picture.size(2), plane = picture.size(0) == 1 ? 0 : h * w;
  const auto* in = picture.data<std::uint8_t>();
  cairo_surface_flush(cairo_->surface);
  unsigned char* out = cairo_image_surface_get_data(cairo_->surface);
  const std::int64_t stride = cairo_image_surface_get_stride(cairo_->surface);
  for (std::int64_t y = std::max<std::int64_t>(0, -top); y < h * zoom && top + y < height_; ++y) {
    auto* row = reinterpret_cast<std::uint32_t*>(out + (top + y) * stride);
    for (std::int64_t x = std::max<std::int64_t>(0, -left); x < w * zoom && left + x < width_; ++x) {
      const std::uint8_t* pixel = in + y / zoom * w + x / zoom;
      row[left + x] = std::uint32_t{pixel[0]} << 16U | std::uint32_t{pixel[plane]} << 8U | pixel[2 * plane];
    }
  }
  cairo_surface_mark_dirty(cairo_->surface);
}

adjoint::Tensor Canvas::image() const {
  adjoint::Tensor result = adjoint::Tensor::empty({3, height_, width_}, {.dtype = adjoint::kUInt8});
  cairo_surface_flush(cairo_->surface);
  const unsigned char* in = cairo_image_surface_get_data(cairo_->surface);
  const std::int64_t stride = cairo_image_surface_get_stride(cairo_->surface), plane = height_ * width_;
  auto* out = result.mutable_data<std::uint8_t>();
  for (std::int64_t y = 0; y < height_; ++y) {
    const auto* row = reinterpret_cast<const std::uint32_t*>(in + y * stride);
    for (std::int64_t x = 0; x < width_; ++x, ++out) {
      out[0] = static_cast<std::uint8_t>(row[x] >> 16U);
      out[plane] = static_cast<std::uint8_t>(row[x] >> 8U);
      out[2 * plane] = static_cast<std::uint8_t>(row[x]);
    }
  }
  return result;
}

}  // namespace examples

#else

namespace examples {

bool can_draw() { return false; }

struct Canvas::Cairo {};

Canvas::Canvas(std::int64_t height, std::int64_t width, Rgb) : height_(height), width_(width) {
  throw adjoint::Error("Canvas: this build has no Cairo and cannot draw; install libcairo2-dev and build again");
}
Canvas::~Canvas() = default;
void Canvas::rectangle(Point, Point, Rgb) {}
void Canvas::disc(Point, double, Rgb) {}
void Canvas::polyline(const std::vector<Point>&, double, Rgb, double) {}
void Canvas::text(Point, const std::string&, const TextOptions&) {}
double Canvas::text_width(const std::string&, const TextOptions&) { return 0.0; }
void Canvas::paste(const adjoint::Tensor&, std::int64_t, std::int64_t, std::int64_t) {}
adjoint::Tensor Canvas::image() const { return {}; }

}  // namespace examples

#endif

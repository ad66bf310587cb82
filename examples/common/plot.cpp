#include "common/plot.h"

#include "common/canvas.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace examples {
namespace {

constexpr std::int64_t kPanelWidth = 620, kPanelHeight = 460;
constexpr std::array<Rgb, 4> kColors{kBlue, kOrange, kGreen, kPurple};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double extent() const { return high - low; }
  float part(double value) const { return static_cast<float>((value - low) / extent()); }
};

/// Returns the values' range with a margin wider than their rounding, or 0 to 1 if there are no values.
Range padded(Range range, double share) {
  if (!(range.low <= range.high)) return {0.0, 1.0};
  const double room =
      std::max(share * range.extent(), 1e-6 + 1e-3 * std::max(std::abs(range.low), std::abs(range.high)));
  return {range.low - room, range.high + room};
}

/// Returns 1, 2 or 5 times a power of ten, of which about `count` fill `range`.
double tick_step(Range range, int count) {
  const double rough = range.extent() / count, power = std::pow(10.0, std::floor(std::log10(rough)));
  const double digit = rough / power;
  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

std::vector<double> ticks(Range range, double step) {
  std::vector<double> values;
  for (double i = std::ceil(range.low / step); i * step <= range.high && values.size() < 20; i += 1.0)
    values.push_back(i * step + 0.0);  // no -0
  return values;
}

/// Returns a number with as many decimals as its neighbours at this distance need.
std::string tick_text(double value, double step) {
  if (std::max(std::abs(value), step) >= 1e6 || step < 1e-6) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9))));
}

void draw_panel(Canvas& canvas, float left, const Panel& panel) {
  const Point low{left + 80, 60}, high{left + kPanelWidth - 30, kPanelHeight - 80};
  Range x, y;
  for (const Series& series : panel.series) {
    for (const auto& [px, py] : series.points) {
      x.take(px);
      y.take(py);
    }
  }
  for (const auto& [name, level] : panel.levels) y.take(level);
  x = padded(x, 0.0);
  y = padded(y, 0.06);
  const auto at = [&](double px, double py) {
    return Point{std::lerp(low.x, high.x, x.part(px)), std::lerp(high.y, low.y, y.part(py))};
  };

  canvas.text({low.x, low.y - 22}, panel.title, {.size = 16});
  const double y_step = tick_step(y, 5), x_step = tick_step(x, 6);
  for (const double value : ticks(y, y_step)) {
    const Point p = at(x.low, value);
    canvas.polyline({p, {high.x, p.y}}, 1.0, kPale);
    canvas.text({low.x - 10, p.y + 4}, tick_text(value, y_step), {.size = 12, .color = kSoft, .align = Align::kRight});
  }
  for (const double value : ticks(x, x_step)) {
    const Point p = at(value, y.low);
    canvas.polyline({p, {p.x, p.y + 5}}, 1.0, kSoft);
    canvas.text({p.x, p.y + 22}, tick_text(value, x_step), {.size = 12, .color = kSoft, .align = Align::kCentre});
  }
  canvas.polyline({{low.x, high.y}, high}, 1.4, kSoft);
  canvas.text({(low.x + high.x) / 2, high.y + 46}, panel.x_label,
              {.size = 13, .color = kSoft, .align = Align::kCentre});

  for (const auto& [name, level] : panel.levels) {
    const Point p = at(x.low, level);
    canvas.polyline({p, {high.x, p.y}}, 1.8, kSoft, 6.0);
    canvas.text({high.x, p.y - 7}, fmt::format("{} {:.4g}", name, level),
                {.size = 12, .color = kSoft, .align = Align::kRight});
  }
  float legend = low.y + 6;
  for (std::size_t i = 0; i < panel.series.size(); ++i) {
    const Series& series = panel.series[i];
    const Rgb color = kColors[i % kColors.size()];
    std::vector<Point> points;
    for (const auto& [px, py] : series.points) points.push_back(at(px, py));
    canvas.polyline(points, 2.4, color);
    for (const Point& p : points) canvas.disc(p, 3.2, color);
    if (series.name.empty()) continue;
    canvas.text({high.x, legend}, series.name, {.size = 12, .color = color, .align = Align::kRight});
    legend += 18;
  }
}

}  // namespace

void write_plot(const std::filesystem::path& path, const std::vector<Panel>& panels) {
  Canvas canvas(kPanelHeight, kPanelWidth * std::max<std::int64_t>(1, std::ssize(panels)));
  for (std::size_t i = 0; i < panels.size(); ++i)
    draw_panel(canvas, static_cast<float>(i) * static_cast<float>(kPanelWidth), panels[i]);
  adjoint::data::write_png(path, canvas.image());
}

adjoint::Tensor picture_grid(const std::vector<std::vector<GridCell>>& rows, const GridOptions& options) {
  constexpr std::int64_t kGap = 12, kCaption = 24, kTitle = 36;
  std::int64_t height = 1, width = 1, columns = std::ssize(options.titles);
  bool captions = false;
  for (const auto& row : rows) {
    columns = std::max(columns, std::ssize(row));
    for (const GridCell& cell : row) {
      height = std::max(height, cell.image.size(1) * options.zoom);
      width = std::max(width, cell.image.size(2) * options.zoom);
      captions = captions || !cell.caption.empty();
    }
  }
  const std::int64_t row_height = height + kGap + (captions ? kCaption - kGap / 2 : 0);
  const std::int64_t header = options.titles.empty() ? kGap : kTitle;
  Canvas canvas(header + std::ssize(rows) * row_height, kGap + columns * (width + kGap));
  const auto left_of = [&](std::size_t column) { return kGap + static_cast<std::int64_t>(column) * (width + kGap); };
  const auto centre_of = [&](std::size_t column) {
    return static_cast<float>(left_of(column)) + static_cast<float>(width) / 2;
  };
  for (std::size_t i = 0; i < options.titles.size(); ++i) {
    const bool marked = static_cast<std::int64_t>(i) == options.marked;
    canvas.text({centre_of(i), kTitle - 12}, options.titles[i],
                {.size = 16, .color = marked ? kBlue : kInk, .align = Align::kCentre, .bold = marked});
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::int64_t top = header + static_cast<std::int64_t>(r) * row_height;
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const GridCell& cell = rows[r][c];
      const std::int64_t h = cell.image.size(1) * options.zoom, w = cell.image.size(2) * options.zoom;
      canvas.paste(cell.image, left_of(c) + (width - w) / 2, top + (height - h) / 2, options.zoom);
      canvas.text({centre_of(c), static_cast<float>(top + height + 16)}, cell.caption,
                  {.size = 12,
                   .color = static_cast<std::int64_t>(c) == options.marked ? kBlue : kSoft,
                   .align = Align::kCentre});
    }
  }
  return canvas.image();
}

}  // namespace examples

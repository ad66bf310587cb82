// metrics.json and curves.png.
#include "report.h"

#include "canvas.h"

#include <adjoint/core/file.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace super_resolution {
namespace {

constexpr Rgb kInk{0.13F, 0.15F, 0.19F}, kPale{0.88F, 0.89F, 0.91F}, kSoft{0.42F, 0.45F, 0.50F}, kPaper{1, 1, 1};
constexpr Rgb kBlue{0.10F, 0.40F, 0.80F}, kOrange{0.90F, 0.45F, 0.10F};

struct Range {
  double low = 0.0, high = 1.0;
  double extent() const { return high - low; }
  double part(double value) const { return (value - low) / extent(); }
};

/// 1, 2 or 5 times a power of ten, so that about `count` of them fill `range`.
double tick_step(Range range, int count) {
  const double rough = range.extent() / count, power = std::pow(10.0, std::floor(std::log10(rough)));
  const double digit = rough / power;
  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/// A number with as many decimals as its neighbours at this distance need.
std::string tick_text(double value, double step) {
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

/// The multiples of `step` in `range`.
std::vector<double> ticks(Range range, double step) {
  std::vector<double> values;
  for (double i = std::ceil(range.low / step); i * step <= range.high && values.size() < 20; i += 1.0)
    values.push_back(i * step);
  return values;
}

/// With room around, more than the values' own rounding.
Range padded(double low, double high) {
  const double room = std::max(0.06 * (high - low), 1e-6 + 1e-3 * std::max(std::abs(low), std::abs(high)));
  return {low - room, high + room};
}

/// One diagram in the box (corners `low`, `high` of its axes).
class Diagram {
 public:
  Diagram(Canvas& canvas, Point low, Point high, Range x, Range y)
      : canvas_(canvas), low_(low), high_(high), x_(x), y_(y) {}

  Point at(double x, double y) const {
    return {std::lerp(low_.x, high_.x, static_cast<float>(x_.part(x))),
            std::lerp(high_.y, low_.y, static_cast<float>(y_.part(y)))};
  }

  void axes(const std::string& title) {
    const double y_step = tick_step(y_, 5);
    canvas_.text({low_.x, low_.y - 22}, 13, title, kInk);
    for (const double y : ticks(y_, y_step)) {
      const Point p = at(x_.low, y);
      canvas_.polyline({p, {high_.x, p.y}}, 1.0F, kPale);
      const std::string text = tick_text(y, y_step);
      canvas_.text({low_.x - 10 - Canvas::text_width(10, text), p.y + 5}, 10, text, kSoft);
    }
    const double x_step = tick_step(x_, 6);
    for (const double x : ticks(x_, x_step)) {
      const Point p = at(x, y_.low);
      canvas_.polyline({p, {p.x, p.y + 5}}, 1.0F, kSoft);
      const std::string text = tick_text(x, x_step);
      canvas_.text({p.x - Canvas::text_width(10, text) / 2, p.y + 22}, 10, text, kSoft);
    }
    canvas_.polyline({{low_.x, high_.y}, high_}, 1.4F, kSoft);
    const std::string label = "seconds of training";
    canvas_.text({(low_.x + high_.x - Canvas::text_width(11, label)) / 2, high_.y + 46}, 11, label, kSoft);
  }

  void curve(const std::vector<Point>& points, Rgb color) {
    canvas_.polyline(points, 2.4F, color);
    for (const Point& p : points) canvas_.disc(p, 3.2F, color);
  }

  void level(double y, const std::string& text, Rgb color) {
    const Point p = at(x_.low, y);
    for (float x = low_.x; x < high_.x; x += 12)
      canvas_.polyline({{x, p.y}, {std::min(x + 6, high_.x), p.y}}, 1.8F, color);
    canvas_.text({high_.x - Canvas::text_width(11, text), p.y - 8}, 11, text, color);
  }

 private:
  Canvas& canvas_;
  Point low_, high_;
  Range x_, y_;
};

}  // namespace

void write_metrics(const std::filesystem::path& path, const Trainer& trainer) {
  nlohmann::ordered_json pictures = nlohmann::ordered_json::array();
  Quality mean;
  for (std::int64_t i = 0; i < trainer.validation().size(); ++i) {
    const Quality one = measure(trainer.model(), trainer.tests()[static_cast<std::size_t>(i)], trainer.device());
    pictures.push_back(
        {{"name", trainer.validation().name(i)}, {"psnr_bicubic", one.bicubic}, {"psnr_adjoint", one.adjoint}});
    mean.bicubic += one.bicubic / static_cast<double>(trainer.validation().size());
    mean.adjoint += one.adjoint / static_cast<double>(trainer.validation().size());
  }
  const nlohmann::ordered_json metrics{{"psnr_bicubic", mean.bicubic},
                                       {"psnr_adjoint", mean.adjoint},
                                       {"seconds", trainer.seconds()},
                                       {"device", to_string(trainer.device())},
                                       {"steps", trainer.steps_done()},
                                       {"parameters", trainer.model().num_parameters()},
                                       {"options", nlohmann::json(trainer.options())},
                                       {"pictures", pictures},
                                       {"curve", nlohmann::json(trainer.curve())}};
  adjoint::AtomicFile file("write_metrics", path);
  file.write(metrics.dump(2) + "\n");
  file.commit();
}

void write_curves(const std::filesystem::path& path, const Trainer& trainer) {
  const std::vector<CurvePoint>& curve = trainer.curve();
  const auto extremes = [&](auto value) {
    const auto [low, high] = std::minmax_element(curve.begin(), curve.end(),
                                                 [&](const auto& a, const auto& b) { return value(a) < value(b); });
    return std::pair(value(*low), value(*high));
  };
  const auto loss_of = [](const CurvePoint& p) { return 1000.0 * p.loss; };
  const auto psnr_of = [](const CurvePoint& p) { return p.psnr; };
  const auto [loss_low, loss_high] = extremes(loss_of);
  const auto [psnr_low, psnr_high] = extremes(psnr_of);
  const Range seconds{0.0, std::max(curve.back().seconds, 1e-3) * 1.02};
  const double bicubic = trainer.bicubic_psnr();

  Canvas canvas(460, 1240, kPaper);
  Diagram loss(canvas, {90, 60}, {600, 380}, seconds, padded(loss_low, loss_high));
  loss.axes("training loss (1000 x mean squared error)");
  Diagram quality(canvas, {700, 60}, {1210, 380}, seconds,
                  padded(std::min(psnr_low, bicubic), std::max(psnr_high, bicubic)));
  quality.axes("PSNR on unseen pictures (dB)");

  std::vector<Point> loss_points, psnr_points{quality.at(0.0, bicubic)};
  for (const CurvePoint& p : curve) {
    loss_points.push_back(loss.at(p.seconds, loss_of(p)));
    psnr_points.push_back(quality.at(p.seconds, p.psnr));
  }
  loss.curve(loss_points, kOrange);
  quality.level(bicubic, fmt::format("bicubic {:.2f} dB", bicubic), kSoft);
  quality.curve(psnr_points, kBlue);
  const std::string last = fmt::format("Adjoint {:.2f} dB", curve.back().psnr);
  canvas.text({1210 - Canvas::text_width(11, last), psnr_points.back().y + 24}, 11, last, kBlue);
  adjoint::data::write_png(path, canvas.image());
}

}  // namespace super_resolution

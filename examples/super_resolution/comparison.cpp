// Writes comparison.png.
#include "training.h"
#include "upscale.h"

#include "common/plot.h"

#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace super_resolution {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;

constexpr std::int64_t kWindow = 144;  // pixels of the original in a panel
constexpr std::int64_t kZoom = 2;      // pixels of the panel in one of the original's

struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;  // multiples of the scale, in pixels of the original
};

/// The window with most contrast between neighbours: enlarging is hard there, and differences are visible.
Window busiest(const Tensor& luma) {
  const std::int64_t h = luma.size(1), w = luma.size(2);
  Window best{0, 0, std::min(h, kWindow), std::min(w, kWindow)};
  const float* data = luma.data<float>();
  double most = -1.0;
  for (std::int64_t top = 0; top + best.height <= h; top += kWindow / 4) {
    for (std::int64_t left = 0; left + best.width <= w; left += kWindow / 4) {
      double contrast = 0.0;
      for (std::int64_t y = top; y + 1 < top + best.height; ++y) {
        for (std::int64_t x = left; x + 1 < left + best.width; ++x) {
          const float* p = data + y * w + x;
          contrast += std::abs(p[1] - p[0]) + std::abs(p[w] - p[0]);
        }
      }
      if (contrast > most) {
        most = contrast;
        best.top = top;
        best.left = left;
      }
    }
  }
  return best;
}

/// Every pixel as a square of `times` pixels.
Tensor magnified(const Tensor& image, std::int64_t times) {
  const std::int64_t channels = image.size(0), h = image.size(1), w = image.size(2);
  return image.reshape({channels, h, 1, w, 1})
      .expand({channels, h, times, w, times})
      .reshape({channels, h * times, w * times});
}

/// A piece of a picture (in units of the original's pixels divided by `shrink`) as a panel.
Tensor panel(const Tensor& image, const Window& window, std::int64_t shrink) {
  return magnified(data::crop(image, window.top / shrink, window.left / shrink, window.height / shrink,
                              window.width / shrink),
                   shrink);
}

std::vector<examples::GridCell> row_of(const Tensor& rgb, const Quality& quality, const Trainer& trainer) {
  const std::int64_t scale = trainer.model().scale();
  const Tensor low = shrunk(rgb, scale);
  const Window window = busiest(luma(rgb));
  // The window needs surroundings, with which its pixels equal those of the whole enlarged picture.
  const std::int64_t margin = trainer.model().radius();
  const std::int64_t first_y = std::max<std::int64_t>(0, window.top / scale - margin),
                     first_x = std::max<std::int64_t>(0, window.left / scale - margin);
  const std::int64_t last_y = std::min(low.size(1), (window.top + window.height) / scale + margin);
  const std::int64_t last_x = std::min(low.size(2), (window.left + window.width) / scale + margin);
  const Tensor around = data::crop(low, first_y, first_x, last_y - first_y, last_x - first_x);
  const Window inside{window.top - scale * first_y, window.left - scale * first_x, window.height, window.width};

  return {{panel(low, window, scale), fmt::format("{} x {} pixels", low.size(2), low.size(1))},
          {panel(data::to_uint8(bicubic(data::to_float(around), scale)), inside, 1),
           fmt::format("{:.2f} dB, SSIM {:.3f}", quality.bicubic.psnr, quality.bicubic.ssim)},
          {panel(upscale(trainer.model(), around, trainer.device()), inside, 1),
           fmt::format("{:.2f} dB, SSIM {:.3f}", quality.adjoint.psnr, quality.adjoint.ssim)},
          {panel(rgb, window, 1), fmt::format("{} x {} pixels", rgb.size(2), rgb.size(1))}};
}

}  // namespace

void write_comparison(const std::filesystem::path& path, const Trainer& trainer,
                      const std::vector<Quality>& qualities) {
  const std::size_t count = qualities.size();
  // Takes pictures from the middle of the order of gain, not the best ones.
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto gain = [&](std::size_t i) { return qualities[i].adjoint.psnr - qualities[i].bicubic.psnr; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return gain(a) < gain(b); });
  const std::size_t shown = std::min<std::size_t>(count, 3), first = (count - shown) / 2;
  std::vector<std::vector<examples::GridCell>> rows;
  for (std::size_t row = 0; row < shown; ++row) {
    const std::size_t i = order[first + row];
    rows.push_back(row_of(trainer.validation().rgb(static_cast<std::int64_t>(i)), qualities[i], trainer));
  }
  data::write_png(path, examples::picture_grid(
                            rows, {.titles = {"low", "bicubic", "Adjoint", "original"}, .marked = 2, .zoom = kZoom}));
}

}  // namespace super_resolution

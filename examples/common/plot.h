// Diagrams of curves, and grids of pictures with labels; see canvas.h.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace examples {

/// Points (x, y) of finite numbers.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points = {};
};

/// One diagram: curves, and dashed horizontal lines with a name each.
struct Panel {
  std::string title, x_label;
  std::vector<Series> series = {};
  std::vector<std::pair<std::string, double>> levels = {};
};

/// Diagrams side by side, 620 x 460 pixels each, as a PNG file.
void write_plot(const std::filesystem::path& path, const std::vector<Panel>& panels);

struct GridOptions {
  /// Titles above the columns: none, or one for each.
  std::vector<std::string> titles = {};
  /// The title that is highlighted; -1 for none.
  std::int64_t marked = -1;
  /// Each picture's pixels are drawn so large.
  std::int64_t zoom = 1;
};
struct GridCell {
  adjoint::Tensor image;  // (1 or 3, h, w), uint8
  std::string caption = {};
};
/// Rows of pictures, centred in cells of the largest one's size, as (3, H, W), uint8.
adjoint::Tensor picture_grid(const std::vector<std::vector<GridCell>>& rows, const GridOptions& options = {});

}  // namespace examples

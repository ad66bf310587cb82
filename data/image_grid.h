// Combines several pictures into one, and writes it to a file.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace adjoint::data {

struct GridOptions {
  /// Pictures per row.
  std::int64_t nrow = 8;
  /// Pixels around each.
  std::int64_t padding = 2;
  /// Scales elements from value_range to [0, 1].
  bool normalize = false;
  /// Defaults to the least and the largest of the elements; values outside are clamped.
  std::optional<std::pair<double, double>> value_range = {};
  /// Scales each picture by its own range.
  bool scale_each = false;
  /// The value of the padding.
  double pad_value = 0.0;
};

/// Pictures (N, C, H, W), a picture (C, H, W) or one channel (H, W) -> (C, H', W'), row by row; one channel becomes
/// three. A single picture has no padding. Any device, not recorded. Throws Error for other ranks, nrow below 1,
/// negative padding, no pictures, and .normalize with a dtype that is not floating point.
ADJOINT_API Tensor make_grid(const Tensor& pictures, const GridOptions& options = {});
/// For pictures (C, H, W) of one shape.
ADJOINT_API Tensor make_grid(const std::vector<Tensor>& pictures, const GridOptions& options = {});

/// write_image (data/image.h) of the grid.
ADJOINT_API void save_image(const std::filesystem::path& path, const Tensor& pictures, const GridOptions& options = {});
inline void save_image(const Tensor& pictures, const std::filesystem::path& path, const GridOptions& options = {}) {
  save_image(path, pictures, options);
}

}  // namespace adjoint::data

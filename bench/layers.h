// The layers that the benchmarks run on, from bench/layers/*.csv.
#pragma once

#include <adjoint/core/base/error.h>
#include <adjoint/ops/conv/geometry.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace bench {

struct Layer {
  std::string name;
  bool transposed = false;
  std::optional<std::int64_t> batch;  // nullopt: any batch
  adjoint::ConvGeometry geometry;     // at batch 1 if the layer has no batch

  adjoint::ConvGeometry with_batch(std::int64_t n) const {
    adjoint::ConvGeometry g = geometry;
    g.batch = n;
    return g;
  }
};

namespace detail {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

/// Returns the cells of a line. A cell in quotation marks may contain commas.
inline std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> parts(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// One number applies to every axis.
template <class Values>
Values axes(const std::string& text, int rank) {
  const std::vector<std::string> parts = split(text, 'x');
  Values values;
  for (std::size_t axis = 3 - static_cast<std::size_t>(rank), i = 0; axis < 3; ++axis, ++i) {
    values[axis] = std::stoll(parts.size() == 1 ? parts[0] : parts.at(i));
  }
  return values;
}

}  // namespace detail

/// Returns the layers of layers/<name>.csv. Throws Error if there is no such file.
inline std::vector<Layer> read_layers(const std::string& name) {
  const std::string path = std::string(ADJOINT_BENCH_LAYERS) + "/" + name + ".csv";
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw adjoint::Error("read_layers: cannot read " + path);
  std::vector<Layer> layers;
  while (std::getline(file, line)) {
    const std::vector<std::string> c = detail::cells(line);
    const int rank = 1 + static_cast<int>(std::count(c.at(5).begin(), c.at(5).end(), 'x'));
    const auto extents = [&](std::size_t column) { return detail::axes<adjoint::Extents>(c.at(column), rank); };
    const auto margins = [&](std::size_t column) { return detail::axes<adjoint::Margins>(c.at(column), rank); };
    Layer layer{.name = c.at(0), .transposed = c.at(1) == "conv_transpose"};
    if (!c.at(2).empty()) layer.batch = std::stoll(c.at(2));
    adjoint::ConvGeometry& g = layer.geometry;
    const std::int64_t in = std::stoll(c.at(3)), out = std::stoll(c.at(4));
    const adjoint::Extents input = extents(5);
    const adjoint::Margins output_padding = margins(10);
    g = {.rank = rank,
         .batch = layer.batch.value_or(1),
         .image_channels = layer.transposed ? out : in,
         .feature_channels = layer.transposed ? in : out,
         .groups = std::stoll(c.at(11)),
         .kernel = extents(6),
         .stride = extents(7),
         .padding = margins(8),
         .dilation = extents(9)};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t reach = g.dilation[axis] * (g.kernel[axis] - 1) + 1 - 2 * g.padding[axis];
      if (layer.transposed) {
        g.feature[axis] = input[axis];
        g.image[axis] = (input[axis] - 1) * g.stride[axis] + reach + output_padding[axis];
      } else {
        g.image[axis] = input[axis];
        g.feature[axis] = (input[axis] - reach) / g.stride[axis] + 1;
      }
    }
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace bench

// Feature positions in chunks, for weight gradients: shapes alone determine the positions that are summed together.
#pragma once

#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/matmul/cpu/outer_sums.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace adjoint::cpu {

/// Whole samples, planes of a sample, rows of a plane, or part of a row.
using Chunk = VolumeBox;

/// Chunks of about so many positions.
inline std::vector<Chunk> make_chunks(const ConvGeometry& g, std::int64_t positions) {
  std::vector<Chunk> chunks;
  const auto [depth, height, width] = g.feature;
  const std::int64_t samples = std::max<std::int64_t>(1, positions / g.feature_plane());
  const std::int64_t planes = std::clamp<std::int64_t>(positions / (height * width), 1, depth);
  const std::int64_t rows = std::clamp<std::int64_t>(positions / width, 1, height);
  const std::int64_t columns = std::min(width, positions);
  for (std::int64_t n = 0; n < g.batch; n += samples) {
    for (std::int64_t d = 0; d < depth; d += planes) {
      for (std::int64_t h = 0; h < height; h += rows) {
        for (std::int64_t w = 0; w < width; w += columns) {
          chunks.push_back({{n, std::min(n + samples, g.batch)},
                            {d, std::min(d + planes, depth)},
                            {h, std::min(h + rows, height)},
                            {w, std::min(w + columns, width)}});
        }
      }
    }
  }
  return chunks;
}

}  // namespace adjoint::cpu

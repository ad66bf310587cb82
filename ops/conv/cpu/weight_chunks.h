// Feature positions in chunks, for weight gradients: shapes alone determine the positions that are summed together.
#pragma once

#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/matmul/cpu/outer_sums.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace adjoint::cpu {

/// Whole planes, or rows of one, or part of a row.
using Chunk = PlaneBox;

/// Chunks of about so many positions.
inline std::vector<Chunk> make_chunks(const ConvGeometry& g, std::int64_t positions) {
  std::vector<Chunk> chunks;
  const std::int64_t height = g.feature[0], width = g.feature[1];
  const std::int64_t planes = std::max<std::int64_t>(1, positions / (height * width));
  const std::int64_t rows = std::clamp<std::int64_t>(positions / width, 1, height);
  const std::int64_t columns = std::min(width, positions);
  for (std::int64_t n = 0; n < g.batch; n += planes) {
    for (std::int64_t h = 0; h < height; h += rows) {
      for (std::int64_t w = 0; w < width; w += columns) {
        chunks.push_back(
            {{n, std::min(n + planes, g.batch)}, {h, std::min(h + rows, height)}, {w, std::min(w + columns, width)}});
      }
    }
  }
  return chunks;
}

}  // namespace adjoint::cpu

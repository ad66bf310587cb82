// The places of the tiles by which planes are taken apart (layouts/unshuffle.h), and the order of a tile in the parts.
#pragma once

#include <adjoint/ops/conv/layouts/unshuffle.h>

#include <cstdint>

namespace adjoint::cuda::rearranged {

inline constexpr int kThreads = kUnshuffleThreads;

/// The start of a tile.
struct Tile {
  std::int64_t plane;
  std::int32_t residue_h = 0, residue_w = 0, h = 0, w = 0;
};

__device__ __forceinline__ Tile tile_of(const Unshuffle& u, int number) {
  int w = number, h = u.block_tiles[1].split(w), column = u.block_tiles[0].split(h);
  int row = u.residue_tiles[1].split(column);
  const int plane = u.residue_tiles[0].split(row);
  const auto begin = [](int tile, std::int64_t extent) { return tile * static_cast<int>(extent); };
  return {plane, begin(row, u.tile_residues[0]), begin(column, u.tile_residues[1]), begin(h, u.tile_blocks[0]),
          begin(w, u.tile_blocks[1])};
}

/// The start of a tile in the parts.
__device__ __forceinline__ std::int64_t begin_apart(const Unshuffle& u, const Tile& tile) {
  const std::int64_t part = (tile.plane * u.residues[0] + tile.residue_h) * u.residues[1] + tile.residue_w;
  return (part * u.blocks[0] + tile.h) * u.blocks[1] + tile.w;
}

/// Calls visit(offset, number, place) for every kVector neighbours of a plane's tile in the parts, [residue of rows][of
/// columns][block of rows][of columns]: the offset of the first from begin_apart(), negative if there is none; the
/// number of vectors before it; and its place in the tile in the planes' order, [block of rows][residue][column].
template <int kVector, class Visit>
__device__ __forceinline__ void for_apart(const Unshuffle& u, const Tile& tile, const Visit& visit) {
  const int rows = static_cast<int>(u.rows.divisor()), length = static_cast<int>(u.row.divisor());
  const auto columns = static_cast<int>(u.residues[1]), stride = static_cast<int>(u.stride[1]);
  const auto blocks_h = static_cast<int>(u.blocks[0]), blocks_w = static_cast<int>(u.blocks[1]);
  // The rest of the planes' parts from the tile's start on.
  const auto rows_left = static_cast<int>(u.residues[0]) - tile.residue_h, columns_left = columns - tile.residue_w;
  const int height = blocks_h - tile.h, width = blocks_w - tile.w;
  const int count = rows * static_cast<int>(u.residues_w.divisor() * u.blocks_h.divisor() * u.vectors_w.divisor());
#pragma unroll 4
  for (int number = static_cast<int>(threadIdx.x); number < count; number += kThreads) {
    int w = number, h = u.vectors_w.split(w), column = u.blocks_h.split(h);
    const int row = u.residues_w.split(column);
    w *= kVector;
    const bool inside = row < rows_left && column < columns_left && h < height && w < width;
    const int offset = ((row * columns + column) * blocks_h + h) * blocks_w + w;
    visit(inside ? offset : -1, number, w * stride + column + (h * rows + row) * length);
  }
}

}  // namespace adjoint::cuda::rearranged

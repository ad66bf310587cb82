// Separates planes by positions' places modulo a stride (space to depth; PyTorch's pixel_unshuffle), with zeros for
// missing positions, and joins them again.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/ops/conv/geometry.h>

#include <array>
#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kUnshuffleTile = 4096;                 // elements that a block of threads moves, at most
inline constexpr int kUnshuffleBytes = 4 * kUnshuffleTile;  // if it splits vectors: their bytes
inline constexpr int kUnshuffleThreads = 256;

/// Takes planes apart: [plane][row][column] to [plane][row's residue][column's residue][row's block][column's].
struct Unshuffle {
  std::int64_t planes = 0;  // 0 if nothing moves
  Extent2 extents{}, padding{}, stride{1, 1};
  Extent2 residues{1, 1}, blocks{};  // those that are kept
  // A block of threads moves some blocks of rows and of columns; either all residues, or some and one block of columns.
  Extent2 tile_residues{}, tile_blocks{};
  std::int64_t tile_planes = 1;  // more than one if vectors separate whole planes
  std::array<Divider, 2> residue_tiles, block_tiles;
  Divider row, rows, plane_rows;            // of a tile in the planes: elements of a row, residues of rows, all rows
  Divider row_vectors, columns;             // vectors that hold a row with any start; the columns' stride
  Divider vectors_w, blocks_h, residues_w;  // of a tile in the parts
  std::int32_t vector = 1;                  // elements of a vector: of 16 bytes, or one
  std::int32_t log2_lanes = 5;              // lanes that share a row

  bool has_whole_planes() const { return tile_residues == residues && tile_blocks == blocks; }
  std::int64_t numel() const { return planes * residues[0] * residues[1] * blocks[0] * blocks[1]; }
  std::int64_t tiles() const {
    std::int64_t tiles = (planes + tile_planes - 1) / tile_planes;
    for (const auto& counts : {residue_tiles, block_tiles}) {
      tiles *= std::int64_t{counts[0].divisor()} * counts[1].divisor();
    }
    return tiles;
  }
};

/// The time of the copy; 0 if nothing moves.
double unshuffle_clocks(const Unshuffle& copy, std::int64_t element_size);

}  // namespace adjoint::cuda

// Problems that are cheaper in another order of their operands.
//
// Strides as channels: with image positions taken apart by their place modulo the stride (space to depth; PyTorch's
// pixel_unshuffle), and the filter's taps likewise,
//     image[c][block * stride + residue - padding] = unshuffled image[c, residue][block],
//     filter[f][c][block * stride + residue] = unshuffled filter[f][c, residue][block],
// each operator of the trio is itself at stride 1, of fewer taps and more image channels. An axis of stride 1 stays as
// it is. Zeros stand where the image has no position and the filter no tap.
//
// The batch as rows: samples of one position, as in the layer that opens a GAN's generator, are a row of positions of
// one sample, once channels come before samples. That is the same move, of rows that are one stride long.
#pragma once

#include <adjoint/core/divider.h>
#include <adjoint/core/export.h>
#include <adjoint/ops/conv/geometry.h>

#include <array>
#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kUnshuffleTile = 4096;  // elements that a block of threads moves, at most

/// How planes are taken apart: [plane][row][column] to [plane][row's residue][column's residue][row's block][column's].
struct Unshuffle {
  std::int64_t planes = 0;  // 0 where nothing moves
  Extent2 extents{}, padding{}, stride{1, 1};
  Extent2 residues{1, 1}, blocks{};  // those that are kept
  // A block of threads moves some blocks of rows and of columns; of residues all, or some and one block of columns.
  Extent2 tile_residues{}, tile_blocks{};
  std::array<Divider, 2> residue_tiles, block_tiles;
  Divider row, rows;                        // of a tile in the planes: elements of a row, residues of rows
  Divider vectors_w, blocks_h, residues_w;  // of a tile where it is apart
  std::int32_t vector = 1;                  // elements of a vector: of 16 bytes, or one
  std::int32_t log2_lanes = 5;              // that share a row

  std::int64_t numel() const { return planes * residues[0] * residues[1] * blocks[0] * blocks[1]; }
  std::int64_t tiles() const {
    std::int64_t tiles = planes;
    for (const auto& counts : {residue_tiles, block_tiles}) {
      tiles *= std::int64_t{counts[0].divisor()} * counts[1].divisor();
    }
    return tiles;
  }
};

struct RearrangedPlan {
  ConvGeometry geometry;              // of stride 1
  Unshuffle image, feature, filter;   // of no planes where an operand is as it was
  std::int64_t bias_repetitions = 1;  // of each image channel's
};

/// Strides as channels. False where no axis has a stride, where one has a stride and a dilation, for an image to be
/// computed that has residues without a tap, and for very large extents.
ADJOINT_API bool plan_strides_as_channels(const ConvGeometry& geometry, bool image_is_result, std::int64_t element_size,
                                          RearrangedPlan& plan);
/// The batch as rows. False where planes have more than one position.
ADJOINT_API bool plan_batch_as_rows(const ConvGeometry& geometry, std::int64_t element_size, RearrangedPlan& plan);

}  // namespace adjoint::cuda

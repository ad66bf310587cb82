// Copies of images in channel blocks, as wgmma reads an operand from shared memory: 16 bytes of a position's channels,
// [image][plane][block][row][column][unit]. A plane holds the positions of one residue modulo a stride, with zeros
// where the image has no position; a block holds a fixed number of a group's channels, with zeros past the last.
//
// A flat copy has all images' positions in one line, [plane][block][image][row][column][unit], with the zeros between
// rows and images that a filter reads beyond their borders: the zeros after one row are also those before the next. Any
// run of positions is therefore a tile, for all extents of a plane.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

/// Elements of a copy's tensor map that make up one position of a block: the fewer, the longer a box's rows may be.
inline constexpr int kMapElements = 2;
inline constexpr int kChunkBlocks = 4;                           // of a chunk's channels, without tails
inline constexpr std::int64_t kMaxFlat = std::int64_t{1} << 29;  // positions of a line, whose elements are counted

/// A copy's shape. Extents are the image's; each of the `chunks` of a group's channels has `chunk_blocks` blocks,
/// followed by their tails if float32 is split.
struct ChannelBlocks {
  std::int64_t images;
  std::int32_t groups, channels, chunks, chunk_blocks;  // channels of a group
  std::int32_t h, w, stride_h, stride_w;
  std::int32_t flat_h, flat_w;  // of a flat copy: rows of an image, columns of a row; else 0

  ADJOINT_HD bool flat() const { return flat_w > 0; }
  ADJOINT_HD std::int32_t rows() const { return flat() ? flat_h : (h + stride_h - 1) / stride_h; }
  ADJOINT_HD std::int32_t columns() const { return flat() ? flat_w : (w + stride_w - 1) / stride_w; }
  /// Positions of a plane; positions from a block to the next, and from an image to the next.
  ADJOINT_HD std::int64_t plane() const { return std::int64_t{rows()} * columns(); }
  ADJOINT_HD std::int64_t block_step() const { return flat() ? images * plane() : plane(); }
  ADJOINT_HD std::int64_t image_step() const { return flat() ? plane() : blocks() * plane(); }
  /// Blocks of an image, or of the line.
  ADJOINT_HD std::int64_t blocks() const { return std::int64_t{groups} * stride_h * stride_w * chunks * chunk_blocks; }
  /// The first block of a group's plane and chunk.
  ADJOINT_HD std::int32_t block(std::int32_t group, std::int32_t plane_h, std::int32_t plane_w,
                                std::int32_t chunk) const {
    return (((group * stride_h + plane_h) * stride_w + plane_w) * chunks + chunk) * chunk_blocks;
  }
  ADJOINT_HD std::int64_t bytes() const { return 16 * images * blocks() * plane(); }
  /// True if the copy is within the size limit; false also if the number of bytes exceeds 64 bits.
  bool fits() const {
    const double line = static_cast<double>(images) * rows() * columns();
    return 16 * line * static_cast<double>(blocks()) <= static_cast<double>(kMostCopyBytes) &&
           (!flat() || line < kMaxFlat);
  }
};

/// The copy at `data` as the copy engine sees it: (columns, rows, images, blocks). `box`: the positions of a box on
/// these axes.
inline TensorMapLayout channel_blocks_layout(const ChannelBlocks& copy, const void* data,
                                             const std::int32_t (&box)[4]) {
  const std::int64_t rows = copy.flat() ? 1 : copy.rows(), images = copy.flat() ? 1 : copy.images;
  const std::int64_t block = kMapElements * copy.block_step(), row = block / rows, image = block * copy.blocks();
  return {.data = data,
          .dtype = kFloat64,
          .extents = {row, rows, images, copy.blocks(), 1},
          .strides = {1, row, image, block, image * images},
          .box = {kMapElements * box[0], box[1], box[2], box[3], 1}};
}

/// Rows (axis 0) or columns (1) of a plane in a flat copy: as many as the copy's planes and the results' positions
/// have, plus the zeros that are read beyond the end of one row or before the start of the next, which both share.
std::int32_t flat_extent(const ConvGeometry& geometry, bool transposed, std::size_t axis);

}  // namespace adjoint::cuda

// What the convolution's inner kernels are told, and the table of them that each instruction set fills. The plans are
// plain data: code for any x86-64 computes them, and the objects that are compiled for one instruction set only read
// them. Internal to ops/conv/cpu.
#pragma once

#include <cstdint>

namespace adjoint::cpu {

/// A position in a plane, or a distance between two.
struct Place {
  std::int64_t h = 0, w = 0;
};

/// conv and conv_transpose as matrix products on gathered tiles. For each sample and group, and each position q of a
/// grid,
///
///   out[channel][q * out_step + slot place] = bias[channel] + sum over taps and input channels of
///       filter[slot, channel][tap, input channel] * in[input channel][q * in_step + tap place],
///
/// where an input outside its plane counts as zero and an output outside is not stored. conv is one such plan: one
/// slot, the image read at stride. conv_transpose is one for each phase, the image written at stride; phases that read
/// the same inputs share one plan, a slot each, so that one channel in nine phases is a product with nine rows.
struct GatherPlan {
  std::int64_t batch, groups;
  std::int64_t in_channels, out_channels;  // of one group
  Place in_extent, out_extent;
  Place in_step, out_step;
  Place grid_begin, grid_extent;  // of q
  std::int64_t taps, slots;
  const Place* tap_places;   // (taps)
  const Place* slot_places;  // (slots)
  std::int64_t positions;    // batch * grid
  std::int64_t inner;        // taps * in_channels: rows of a gathered tile, tap-major
  std::int64_t rows;         // slots * out_channels: rows of the product, slot-major
  std::int64_t blocks;       // of rows: block i begins at row i * rows / blocks
};

/// One task's share of a plan's product.
struct GatherTile {
  std::int64_t group;
  std::int64_t begin, end;               // positions; at most kTilePositions
  std::int64_t first_block, last_block;  // blocks of rows; at most kTileRows rows
};

/// Bounds of a tile: its gathered inputs and its sums stay in a core's second-level cache. kTilePositions is a multiple
/// of every panel.
inline constexpr std::int64_t kTilePositions = 192;
inline constexpr std::int64_t kTileRows = 128;
/// Inner rows that are gathered and multiplied at a time: a block of filters, kTileInner long, stays in the first
/// level.
inline constexpr std::int64_t kTileInner = 256;

/// Part of a weight gradient: result[lane][v] += sum over n, h, w of vectors[n, h, w][v] * scalars[lane][n, h, w].
struct OuterProduct {
  std::int64_t extent[3];       // n, h, w
  std::int64_t vector_step[3];  // elements
  std::int64_t scalar_step[3];
  std::int64_t lane_step;
};

template <class T>
struct Kernels {
  std::int64_t lanes;          // elements of a vector
  std::int64_t panel;          // positions that are multiplied at a time
  std::int64_t block;          // rows, or lanes of an outer product, that are multiplied at a time
  std::int64_t panel_vectors;  // vectors of a panel, or of an outer product

  /// Computes one tile of a plan. `filter` is the group's packed blocks, each (inner, rows of the block); `bias` is the
  /// group's, or null; `in` and `out` are whole tensors; `scratch` holds gather_scratch elements, 64-byte aligned.
  void (*gather_tile)(const GatherPlan& plan, const GatherTile& tile, const T* in, const T* filter, const T* bias,
                      T* out, T* scratch);
  /// to[position][channel] = from[channel][position]; channels from `channels` to `pitch` become zero.
  void (*transpose)(std::int64_t channels, std::int64_t positions, const T* from, std::int64_t channel_step, T* to,
                    std::int64_t pitch);
  /// result: (lanes, vectors), lanes `pitch` elements apart.
  void (*outer_product)(const OuterProduct& product, int vectors, int lanes, const T* vector_operand,
                        const T* scalar_operand, T* result, std::int64_t pitch);
};

/// Elements of scratch memory that gather_tile needs.
inline constexpr std::int64_t kGatherScratch = kTilePositions * (kTileInner + kTileRows);

namespace baseline {
extern const Kernels<float> float_kernels;
extern const Kernels<double> double_kernels;
}  // namespace baseline
namespace avx2 {
extern const Kernels<float> float_kernels;
extern const Kernels<double> double_kernels;
}  // namespace avx2
namespace avx512 {
extern const Kernels<float> float_kernels;
extern const Kernels<double> double_kernels;
}  // namespace avx512

}  // namespace adjoint::cpu

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
  std::int64_t rows;         // slots * out_channels: rows of the product, channel-major: row = channel * slots + slot
  std::int64_t blocks;       // of rows: block i begins at row i * rows / blocks
};

/// A plan's taps as shifts of one slab, for narrow products, which gathering each tap's inputs would dominate: a tile's
/// inputs are copied once, with zeros around the plane, split by residue modulo in_step, so that neighbouring grid
/// positions are neighbours; a tap then reads a residue at a constant distance. Positions run on over the ends of the
/// slab's rows.
struct ShiftPlan {
  struct Tap {
    std::int64_t residue;  // h * in_step.w + w
    Place shift;           // from the slab's first row and column
  };
  Place shift_begin, shift_extent;  // of all taps: smallest, and largest less smallest
  std::int64_t residues;            // in_step.h * in_step.w
  const Tap* taps;                  // (taps)
  const bool* residue_used;         // (residues)
};

/// One task's share of a plan's product where taps are shifts: a part of one sample's grid, all rows of the product.
struct ShiftTile {
  std::int64_t group, n;
  Place begin, extent;  // from grid_begin
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
inline constexpr std::int64_t kTileRows = 256;
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

/// Vectors of an outer product with a single lane: more than a panel's, or its sums would wait for one another.
inline constexpr std::int64_t kMostLoneVectors = 8;

/// Part of a weight gradient of one image plane and one feature plane: feature positions [begin, begin + extent).
struct DotTile {
  Place image_extent, begin, extent;
  std::int64_t feature_width;
  Place kernel, stride, padding, dilation;
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
  /// As gather_tile, by shifts; the packed blocks are channel-major: (in_channels, taps, rows of the block). `scratch`
  /// holds shift_scratch elements.
  void (*shift_tile)(const GatherPlan& plan, const ShiftPlan& shifts, const ShiftTile& tile, const T* in,
                     const T* filter, const T* bias, T* out, T* scratch);
  /// to[position][channel] = from[channel][position]; channels from `channels` to `pitch` become zero.
  void (*transpose)(std::int64_t channels, std::int64_t positions, const T* from, std::int64_t channel_step, T* to,
                    std::int64_t pitch);
  /// result: (lanes, vectors), lanes `pitch` elements apart.
  void (*outer_product)(const OuterProduct& product, int vectors, int lanes, const T* vector_operand,
                        const T* scalar_operand, T* result, std::int64_t pitch);
  /// Adds each tap's sum to result (kernel.h, kernel.w). `scratch` holds the image rows that the tile reads.
  void (*tap_dots)(const DotTile& tile, const T* image, const T* feature, T* result, T* scratch);
};

/// Taps that a plan by shifts has at most, and elements past a slab's last position that whole panels touch.
inline constexpr std::int64_t kMostShiftTaps = 512, kShiftPadding = 64;

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

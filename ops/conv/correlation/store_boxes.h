// The copy engine writes results of the tensor-core kernels of conv and conv_transpose: a warp stages a round's columns
// (correlation_staged_columns) as boxes of the output, and one instruction per box writes it, clipped to the output.
// Plain C++ for host and device, tested without a GPU.
//
// If rows are planes of an even length that is not a multiple of four, every second channel's begins between two
// multiples of 16 bytes. Its boxes begin kBoxShift pixels after the line's first and are as much shorter on both sides;
// such channels have their own boxes. The lanes write the rest, and the last pixels of the other rows: the copy engine
// would write the last 16 bytes of these completely, into the next row (seen on an H200).
//
// A box is `channels` channels of one run of the warp's positions with all phases of each: `line` neighbouring pixels,
// or as many in some short rows. In shared memory the order is [set][parity][box][channel][pixel], with 16-byte chunks
// permuted by the copy engine's swizzle, so lanes that hold a product's sums have no bank conflicts.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/correlation/plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// The boxes of one round, for 1 << log2_phases phases of a position.
struct CorrelationBoxes {
  std::int32_t log2_phases, staged;  // columns of a round
  std::int32_t line;                 // pixels of a channel in a box: at most 32
  std::int32_t sets;      // of channels: 2 without phases, because half of the columns are far from the others
  std::int32_t parities;  // per set: 2 if every second channel's boxes are shifted; those follow the others
  std::int32_t channels;  // per box
  std::int32_t boxes;     // per set

  ADJOINT_HD constexpr CorrelationBoxes(int log2_phases_, bool shifts, int staged_, int positions_)
      : log2_phases(log2_phases_),
        staged(staged_),
        line((positions_ << log2_phases_) < 32 ? positions_ << log2_phases_ : 32),
        sets(log2_phases_ == 0 ? 2 : 1),
        parities(shifts ? 2 : 1),
        channels((log2_phases_ == 0 ? staged_ / 2 : staged_ >> log2_phases_) / (shifts ? 2 : 1)),
        boxes((positions_ << log2_phases_) / line) {}

  ADJOINT_HD constexpr std::int32_t box_positions() const { return line >> log2_phases; }
  ADJOINT_HD constexpr std::int32_t box_bytes() const { return 4 * channels * line; }
  ADJOINT_HD constexpr std::int32_t count() const { return sets * parities * boxes; }
  ADJOINT_HD constexpr std::int32_t bytes() const { return count() * box_bytes(); }

  /// The place of a staged column's value at position m of the round, before chunks are permuted and without shifts: it
  /// combines the bits of the column and of the position.
  ADJOINT_HD constexpr std::uint32_t byte(int column, int m) const {
    const int half = column / (staged / 2), within = column % (staged / 2);
    const int log2_half = log2_phases == 0 ? 0 : log2_phases - 1;
    const int phase = log2_phases == 0 ? 0 : (half << log2_half) + within % (1 << log2_half);
    const int pixel = (m << log2_phases) + phase, set = log2_phases == 0 ? half : 0;
    const int channel = (within >> log2_half) / parities, parity = (within >> log2_half) % parities;
    return static_cast<std::uint32_t>(
        4 * ((((set * parities + parity) * boxes + pixel / line) * channels + channel) * line + pixel % line));
  }
};

/// Permutes chunks within `mask` + 1 of them; it distributes over a sum of bits.
ADJOINT_HD constexpr std::uint32_t exchange_chunks(std::uint32_t byte, std::uint32_t mask) {
  return byte ^ (byte >> 7 & mask) << 4;
}

inline constexpr int kBoxShift = 2;

/// Returns true if every second channel's boxes are shifted.
ADJOINT_HD inline bool correlation_shifts_boxes(const CorrelationPlan& p) { return p.out_w % 4 == 2; }

ADJOINT_HD inline CorrelationBoxes correlation_boxes(const CorrelationPlan& p) {
  const bool blocked = p.blocked != 0;
  return {correlation_log2_interleave(p.out_stride_w), correlation_shifts_boxes(p),
          correlation_staged_columns(p.tile_columns, blocked), correlation_staged_positions(p.m_tiles, blocked)};
}

/// Pixels of a box along a row of the output.
ADJOINT_HD inline std::int32_t correlation_box_width(const CorrelationPlan& p, const CorrelationBoxes& boxes) {
  const std::int32_t row = p.out_stride_w << p.log2_tile_w;
  return row < boxes.line ? row : boxes.line;
}

/// Returns true if float32 results of the plan can be stored to `out` as boxes: rows of the output, or those of every
/// second channel, begin at multiples of 16 bytes, have up to 8 phases, a power of two, and boxes of a few rows,
/// channels and phases that stay within an image and a group.
ADJOINT_API bool correlation_stores_boxes(const CorrelationPlan& plan, const void* out);

/// The output in the copy engine's view: pixels of a row, phases of rows, rows, channels of all groups, images. If
/// boxes are shifted, only every second channel: those from the first on, without their rows' last pixels, or, with
/// `odd`, from the second on, with rows that start kBoxShift pixels early.
ADJOINT_API TensorMapLayout correlation_store_layout(const CorrelationPlan& plan, const void* out, bool odd = false);

}  // namespace adjoint::cuda

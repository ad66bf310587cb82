// How results of the tensor-core kernels of conv and conv_transpose leave by the copy engine: a warp stages a round's
// columns (correlation_staged_columns) as boxes of the output, and one instruction a box writes it, clipped to what
// there is. Plain C++ for host and device, tested without a GPU.
//
// Where rows are planes of an even length that is no multiple of four, every second channel's begins between two
// multiples of 16 bytes. Its boxes begin kBoxShift pixels after the line's first and are as much shorter on both sides;
// such channels have boxes of their own. The lanes write what is left, and the last pixels of the other rows, whose
// last 16 bytes the copy engine would write whole, into the next row (seen on an H200).
//
// A box is `channels` channels of one run of the warp's positions with all phases of each: `line` neighbouring pixels,
// or as many in some short rows. In shared memory they lie [set][parity][box][channel][pixel], 16-byte chunks exchanged
// as the copy engine's swizzle has it, so that lanes that hold a product's sums meet no bank twice.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/core/export.h>
#include <adjoint/ops/conv/correlation/plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// The boxes of one round, for 1 << log2_phases phases of a position.
struct CorrelationBoxes {
  std::int32_t log2_phases, staged;  // columns of a round
  std::int32_t line;                 // pixels of a channel in a box: 32 at most
  std::int32_t sets;      // of channels: 2 where there are no phases, for half of the columns are far from the others
  std::int32_t parities;  // of a set: 2 where every second channel's boxes are shifted, which follow the others
  std::int32_t channels;  // of a box
  std::int32_t boxes;     // of a set

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

  /// Where a staged column's value at position m of the round lies, before chunks are exchanged and shifts aside: its
  /// bits are those of the column and the position, each at a place of its own.
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

/// Chunks exchanged within `mask` + 1 of them; of a sum of bits, the sum of what this is of each.
ADJOINT_HD constexpr std::uint32_t exchange_chunks(std::uint32_t byte, std::uint32_t mask) {
  return byte ^ (byte >> 7 & mask) << 4;
}

inline constexpr int kBoxShift = 2;

/// Whether every second channel's boxes are shifted.
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

/// Whether float32 results of the plan, to `out`, may leave so: rows of the output begin at multiples of 16 bytes, or
/// those of every second channel do, have up to 8 phases, a power of two, and boxes of a few rows, channels and phases
/// that keep within an image and a group.
ADJOINT_API bool correlation_stores_boxes(const CorrelationPlan& plan, const void* out);

/// The output as the copy engine sees it: pixels of a row, phases of rows, rows, channels of all groups, images. Where
/// boxes are shifted, every second channel alone, those from the first on, whose rows' last pixels are left out, or,
/// `odd`, from the second on, whose rows are told of kBoxShift pixels early.
ADJOINT_API TensorMapLayout correlation_store_layout(const CorrelationPlan& plan, const void* out, bool odd = false);

}  // namespace adjoint::cuda

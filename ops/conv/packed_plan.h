// The schedule of the CUDA kernel for few columns and several taps: positions of the line are the rows of wgmma's
// products, results its columns, and both operands lie in shared memory.
//
// A stage's source comes as it lies in memory, and is then packed: some units (a unit is 32 bits: one float, or two
// halves of adjacent channels) as [unit / 4][element of the line][unit % 4]: 16 bytes an element, so that an offset of
// the line is a constant added to a descriptor's address. Every value is loaded, and rounded, once for all offsets,
// where the correlation kernels read and round it once for each.
#pragma once

#include <adjoint/ops/conv/line_plan.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kPackedThreads = 256;  // two warpgroups
/// wgmma's N.
inline constexpr int kPackedColumns[] = {16, 32, 64};

/// Rows of 64 positions that a warpgroup holds the sums of.
constexpr int packed_m_tiles(int columns) { return columns == 64 ? 2 : 4; }

struct PackedPlan : LinePlan {
  std::int32_t unit_channels;   // channels in a unit: 1, or 2 for half precision
  std::int32_t columns;         // wgmma's N
  std::int32_t stage_units;     // of a stage: a multiple of 8
  std::int32_t step_h, step_w;  // in the line, from one of an axis's offsets to the next
  Divider fours_divider;        // by length / 4

  ADJOINT_HD std::int32_t stage_channels() const { return stage_units * unit_channels; }
  ADJOINT_HD std::int32_t stages() const { return (source_channels + stage_channels() - 1) / stage_channels(); }
  /// Of a stage's source, as it lies in memory or packed.
  ADJOINT_HD std::int32_t source_bytes() const { return 4 * stage_units * length; }
  /// 16-byte vectors of a stage's filter: [offset][unit / 4][column][unit % 4].
  ADJOINT_HD std::int32_t filter_vectors() const { return stage_units / 4 * offsets() * columns; }
  /// Of the packed filter.
  std::int64_t workspace_bytes() const { return std::int64_t{16} * filter_vectors() * stages() * groups; }
  /// Of a block's tables: where every element of the line lies, and every column's bias.
  ADJOINT_HD std::int32_t table_bytes() const { return (4 * (length + columns) + 127) / 128 * 128; }
  /// Results on their way out, [column][position]; 4 modulo 32, so that a fragment's pattern hits each bank once.
  ADJOINT_HD std::int32_t out_pitch() const { return tile_positions + 4; }
  /// A stage's source in both forms, and two stages' filters; in the end, in their place, the results.
  ADJOINT_HD std::int32_t smem_bytes() const {
    const std::int32_t stages = 2 * (source_bytes() + 16 * filter_vectors()), out = 4 * columns * out_pitch();
    return table_bytes() + (stages > out ? stages : out);
  }
};

/// Of conv, or of conv_transpose. False for conv with a stride, for more results a position than columns, and for
/// geometries whose offsets are more, lie further apart than the kernel takes, or at uneven distances.
ADJOINT_API bool plan_packed(const ConvGeometry& geometry, bool transposed, std::int64_t element_bytes,
                             PackedPlan& plan);

/// Whether the kernel is faster than the correlation kernels, where rows of the source begin at multiples of 16 bytes.
ADJOINT_API bool packed_pays(const PackedPlan& plan);

}  // namespace adjoint::cuda

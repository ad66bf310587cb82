// The schedule of the CUDA kernel for few results a position, such as the last layers of networks that generate images
// or sound. Tensor cores would pad the results to their sixteen columns or more; here a thread holds all results of
// several positions in registers, multiplies in float32, and loads each filter value once for all of them.
#pragma once

#include <adjoint/ops/conv/line/plan.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kNarrowThreads = 256;
/// Results of a position that a thread may compute.
inline constexpr int kNarrowResults[] = {1, 2, 3, 4, 6, 9, 12, 16};

/// A thread's positions, 32 apart: as many as registers remain for their sums.
constexpr int narrow_positions(int results) { return results > 9 ? 4 : 8; }
/// Filter values of one offset in shared memory, padded because they are loaded by 16 bytes.
constexpr int narrow_row(int results) { return results > 2 ? (results + 3) / 4 * 4 : results; }

struct NarrowPlan : LinePlan {
  std::int32_t stage_channels;  // of the source, staged together

  /// Filter values of one source channel in a stage: rows of narrow_row(), filled up to 16 bytes.
  ADJOINT_HD std::int32_t filter_length() const { return (offsets() * narrow_row(results) + 3) / 4 * 4; }
  /// A stage, in elements: source channels, then their filters.
  ADJOINT_HD std::int32_t stage_elements() const { return stage_channels * (length + filter_length()); }
  /// The block's tables: the place of every element of the line, filter value and offset.
  ADJOINT_HD std::int32_t table_elements() const { return length + filter_length() + (offsets() + 3) / 4 * 4; }
  ADJOINT_HD std::int32_t smem_bytes() const { return 4 * (2 * stage_elements() + table_elements()); }
};

/// A plan of conv, or of conv_transpose. False for conv with a stride, and for geometries with more offsets, or offsets
/// further apart, than the kernel supports.
ADJOINT_API bool plan_narrow(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic, NarrowPlan& plan);

/// The kernel's time: clocks from start to end.
ADJOINT_API double narrow_clocks(const NarrowPlan& plan, Arithmetic arithmetic, const Machine& machine);

}  // namespace adjoint::cuda

// What the kernel that packs the filter for the tensor-core kernels of conv and conv_transpose reads, and how it keeps
// it: plain C++ for host and device.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// Phases along a row whose columns follow each other in a half of a tile's columns, or in all of them.
ADJOINT_HD inline std::int32_t correlation_segment_phases(const CorrelationPlan& p) {
  return p.out_stride_w / p.segments;
}

/// Channels of the result that packing the filter counts: those of zeros that fill the last tile included.
ADJOINT_HD inline std::int32_t correlation_padded_channels(const CorrelationPlan& p) {
  const std::int32_t phases = correlation_segment_phases(p);
  const std::int32_t columns = p.tiles_per_class * (p.tile_columns / p.segments);
  return (columns + phases - 1) / phases - (p.phases_per_class - 1) * p.n_channels;
}

/// How packing keeps a part of the filter, by runs that lie together in memory: of conv_transpose a summed channel's,
/// of conv a result's. All taps of a pair of channels follow each other, `pitch` elements from those of the next: odd,
/// so that reads of neighbouring channels meet all banks.
struct CorrelationPackLayout {
  std::int32_t runs, run;         // their number, and the elements of one
  std::int32_t pitch, run_pitch;  // elements from a pair to the next, from a run to the next
};

ADJOINT_HD inline CorrelationPackLayout correlation_pack_layout(const CorrelationPlan& p) {
  const std::int32_t taps = p.kernel_h * p.filter_w, pitch = taps | 1, summed = kChunkUnits * p.unit_channels;
  if (p.transposed) return {summed, p.pack_channels * taps, pitch, p.pack_channels * pitch};
  return {p.pack_channels, summed * taps, pitch, summed * pitch + 1};
}

/// Bytes of shared memory that packing takes a block.
ADJOINT_HD inline std::int32_t correlation_pack_bytes(const CorrelationPlan& p) {
  const CorrelationPackLayout layout = correlation_pack_layout(p);
  return layout.runs * layout.run_pitch * p.element_bytes();
}

/// Elements from the filter's first one to channel k and result n of a group, at tap 0: base + k * k_step + n * n_step.
struct CorrelationFilterSteps {
  std::int64_t base, k_step, n_step;
};

ADJOINT_HD inline CorrelationFilterSteps correlation_filter_steps(const CorrelationPlan& p, std::int32_t group) {
  const std::int64_t taps = std::int64_t{p.kernel_h} * p.filter_w, slice = p.k_channels * taps;
  if (p.transposed) return {group * slice * p.n_channels, p.n_channels * taps, taps};
  const std::int32_t of_filter = group / p.slices;
  return {of_filter * slice * p.slices * p.n_channels + (group - of_filter * p.slices) * slice, taps, slice * p.slices};
}

}  // namespace adjoint::cuda

// The input and output layouts of the kernel that packs the filter for the tensor-core kernels of conv and
// conv_transpose: plain C++ for host and device.
#pragma once

#include <adjoint/ops/conv/correlation/plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// Phases along a row whose columns follow each other in half of a tile's columns, or in all.
ADJOINT_HD inline std::int32_t correlation_segment_phases(const CorrelationPlan& p) {
  return p.out_stride_w / p.segments;
}

/// Channels of the result that packing counts, including the zero channels that fill the last tile.
ADJOINT_HD inline std::int32_t correlation_padded_channels(const CorrelationPlan& p) {
  const std::int32_t phases = correlation_segment_phases(p);
  const std::int32_t columns = p.tiles_per_class * (p.tile_columns / p.segments);
  return (columns + phases - 1) / phases - (p.phases_per_class - 1) * p.n_channels;
}

/// The place of a segment's phase's columns in a step's filter block.
struct CorrelationPackPlace {
  std::int32_t index, segment, phase;  // row of phases, and the phase in the segment
  std::int32_t pass, step;
};

/// The place with that number: phases follow each other, then segments, steps and rows of phases.
ADJOINT_HD inline CorrelationPackPlace correlation_pack_place(const CorrelationPlan& p, std::int32_t number) {
  CorrelationPackPlace place = {};
  place.phase = number;
  std::int32_t item = p.phase_divider.split(place.phase);
  const std::int32_t log2_segments = p.segments - 1;
  const auto items = [&] { return p.class_list[p.phases_per_class == 1 ? place.index : 0].steps << log2_segments; };
  while (item >= items()) {
    item -= items();
    ++place.index;
  }
  const CorrelationClass& c = p.class_list[p.phases_per_class == 1 ? place.index : 0];
  place.segment = item & log2_segments;
  place.step = p.passes[c.first_pass].first_step + (item >> log2_segments);
  place.pass = c.first_pass;
  while (place.step >= p.passes[place.pass].end_step) ++place.pass;
  return place;
}

/// The values of such a place that packing computes once, for all channels of a block of threads.
struct alignas(16) CorrelationPackItem {
  std::int32_t first_half;   // of the step's filter block, in the class's first tile: a half is at least a kilobyte
  std::int32_t tile_halves;  // from there to that of the next tile
  std::int32_t first;        // of channel 0: its place among the columns of all tiles' segments
  std::int32_t channels;     // that have a place here
  std::int16_t shift;        // from a place in the tile's segment to the block's column
  std::int16_t columns;      // of the block
  std::int16_t taps[2];      // of the filter, for a unit's elements; -1: zero
};

inline constexpr int kPackItems = 256;  // the most that a block of threads computes together

/// Bytes of shared memory per packing block: a round's items, preceded by the filter's part.
ADJOINT_HD inline std::int32_t correlation_pack_items_offset(const CorrelationPlan& p) {
  constexpr std::int32_t kAlignment = alignof(CorrelationPackItem);
  return (p.packing.runs * p.packing.run_pitch * p.element_bytes() + kAlignment - 1) / kAlignment * kAlignment;
}
ADJOINT_HD inline std::int32_t correlation_pack_bytes(const CorrelationPlan& p) {
  const std::int32_t items = p.packing.items < p.packing.round ? p.packing.items : p.packing.round;
  return correlation_pack_items_offset(p) + items * static_cast<std::int32_t>(sizeof(CorrelationPackItem));
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

// What the planners of conv_weight's tensor-core kernels share.
#pragma once

#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/weight/plan.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace adjoint::cuda::weight_parts {

inline constexpr std::int64_t kMaxStages = std::int64_t{1} << 31;
inline constexpr std::int64_t kMaxWorkspace = std::int64_t{512} << 20;

/// Of values that were added to it.
struct Range {
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = std::numeric_limits<std::int64_t>::min();
  void add(std::int64_t value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// At least `elements`, and 4 modulo 32 banks, so that eight channels' fragments of four units hit each bank once.
inline std::int64_t pitch_of(std::int64_t elements, int unit_elements) {
  return (ceil_div(ceil_div(elements, unit_elements) - 4, 32) * 32 + 4) * unit_elements;
}

/// The first and the last row and column of the image that a block's taps read for the position (0, 0).
struct TapSpan {
  Range h, w;
};
TapSpan tap_span(const WeightPlan& plan, const WeightTapBlock& block);

/// False for extents from 2^28 on, planes and filters from 2^31, strides above 64.
bool supported(const ConvGeometry& geometry);

/// A plan of the geometry, its tile and blocks still to be chosen.
void set_geometry(const ConvGeometry& geometry, int unit_elements, WeightPlan& plan);

/// The stage's positions and with them the number of stages.
void set_tile(WeightPlan& plan, int log2_tile_n, int log2_tile_h, int log2_tile_w);

/// Cuts the taps into blocks of `taps_per_block` and finds the stage of the image that fits them all; false where that
/// is too large.
bool build_tap_blocks(WeightPlan& plan, std::int32_t taps_per_block);

/// The same for stages that come as boxes; false, too, where the copy engine takes no such box.
bool build_box_blocks(WeightPlan& plan, std::int32_t taps_per_block);
/// Finds the residues; false where rows of the image do not begin where the copy engine can begin.
bool rows_take_boxes(WeightPlan& plan);
/// Whether lines of 128 bytes of features lie together and begin where it can begin.
bool tile_takes_boxes(const WeightPlan& plan);
/// Clocks of a stage that comes as boxes, by whichever of the multiprocessor's parts is busiest.
double box_stage_clocks(const WeightPlan& plan, bool split);

/// Clocks of all stages of a wgmma kernel's plan, as the model has them by which it was chosen.
double wgmma_weight_clocks(const WeightPlan& plan, bool split);

/// At most `splits` of them, fewer where there are not so many stages.
void set_splits(WeightPlan& plan, std::int64_t splits);

}  // namespace adjoint::cuda::weight_parts

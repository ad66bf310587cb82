// Shared by the planners of conv_weight's tensor-core kernels.
#pragma once

#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/weight/plan.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace adjoint::cuda::weight_parts {

inline constexpr std::int64_t kMaxStages = std::int64_t{1} << 31;
inline constexpr std::int64_t kMostStageElements = 1 << 16;  // of the image: shared memory holds fewer
inline constexpr std::int64_t kMaxWorkspace = std::int64_t{512} << 20;

/// The range of the values added to it.
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

/// False for extents from 2^28 on, planes and filters from 2^31, strides above 64.
bool supported(const ConvGeometry& geometry);

/// Sets up a plan of the geometry; its tile and blocks are still to be chosen.
void set_geometry(const ConvGeometry& geometry, int unit_elements, WeightPlan& plan);

/// Sets the stage's positions and so the number of stages.
void set_tile(WeightPlan& plan, int log2_tile_n, int log2_tile_h, int log2_tile_w);

/// Blocks of a plan's taps, and the size of their stages of the image; both are the same for tiles of every shape.
struct TapBlocks {
  bool fits =
      true;  // the plan can hold that many, and the smallest stage is not too large; if false, counting stopped early
  std::int32_t count = 0;
  WeightTapBlock first{};
  std::int64_t span_h = 0, span_w = 0;  // from a stage's first row and column to the last, of the position (0, 0)
  std::int64_t planes_h = 1, planes_w = 1;
};

/// Caches those of one geometry, because a search asks for the same ones with every shape.
class TapBlockSizes {
 public:
  const TapBlocks& find(const WeightPlan& plan, std::int32_t taps_per_block, std::int32_t alignment);

 private:
  std::map<std::pair<std::int32_t, std::int32_t>, TapBlocks> sizes_;  // by taps and alignment
};

/// The alignment of a row's first element: 16-byte copies begin there, in each of the stride's planes; so do pieces of
/// boxes.
std::int32_t row_alignment(const WeightPlan& plan);

/// Fills in the blocks after the first.
void set_tap_blocks(WeightPlan& plan);

/// Cuts the taps into blocks of `taps_per_block`, sets the first block, and finds the stage of the image that fits all
/// blocks; false if that is too large.
bool build_tap_blocks(WeightPlan& plan, std::int32_t taps_per_block, TapBlockSizes& sizes);

/// The same for stages that are boxes; also false if the copy engine cannot copy such a box.
bool build_box_blocks(WeightPlan& plan, std::int32_t taps_per_block, TapBlockSizes& sizes);
/// Finds the residues; false if rows of the image do not begin where the copy engine can begin.
bool rows_take_boxes(WeightPlan& plan);
/// True if lines of 128 bytes of features are contiguous and begin where it can begin.
bool tile_takes_boxes(const WeightPlan& plan);
/// Clocks of a stage of boxes, by the busiest of the multiprocessor's parts.
double box_stage_clocks(const WeightPlan& plan, bool split);

/// Clocks of all stages of a wgmma kernel's plan, by the model that chose it.
double wgmma_weight_clocks(const WeightPlan& plan, bool split, const Machine& machine);

/// At most `splits` of them; fewer if there are not that many stages.
void set_splits(WeightPlan& plan, std::int64_t splits);

}  // namespace adjoint::cuda::weight_parts

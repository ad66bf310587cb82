// The schedule of conv_weight in the pipeline: of channels_last tensors in half precision and TF32, by wgmma on sm_90.
// Plain C++ for host and device, tested without a GPU.
//
//     filter[f][c][tap] = sum over positions q of feature[q][f] * image[q + shift of tap][c], in the tap's phase
//
// The sum runs over positions, and channels are contiguous in both operands, so wgmma reads halves transposed, from
// boxes of 128 bytes of channels as in plan.h. It cannot do so in TF32: there three warps of the third warpgroup
// transpose the feature in shared memory, once for all taps, and the image's operand passes through registers, read
// from any position on. A stage is a strip of the feature, 16 rows of 8 positions, or 8 in TF32, and the box of the
// image around it, which all taps of a job read from another position on. The rows lie in one plane or several, and
// their axes are in an order that the plan chooses (plan.h).
// wgmma's rows are 64 channels of the feature, or of the image in TF32, its columns 64 or 128 of the other. A job is a
// set of taps of other rows for each warpgroup, or of as many sets of taps as there are warpgroups. Strips are cut into
// slices, whose sums another kernel adds up as it puts taps last (sums/taps.h).
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/ops/conv/sums/taps.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kWeightSteps = 8;       // products of a strip
inline constexpr int kWeightStepBytes = 32;  // of a product's positions
inline constexpr int kWeightTransposedSlots = 2;
inline constexpr int kMostWeightTeams = 3, kMostTeamTaps = 3;
inline constexpr int kRowTaps = 3;  // of a team that shares rows
inline constexpr int kMostWeightSets = 48, kMostStripSlots = 4;

/// A tap: its place in the filter (-1: no tap), and the box's position that the strip's first one reads.
struct WeightSetTap {
  std::int16_t filter = -1;
  std::uint16_t shift = 0;
};
/// The taps of a job and their box.
struct WeightSet {
  PipelineBox box;
  WeightSetTap taps[kMostWeightTeams * kMostTeamTaps];
};

struct PipelineWeightPlan {
  PipelineTensor image, feature;
  std::int32_t taps;  // of the filter
  std::int32_t element_bytes;
  std::int32_t teams, team_taps;  // warpgroups that multiply; taps of each
  std::int32_t columns;           // wgmma's: 64 or 128
  bool shares_taps;               // teams have different channels as rows; otherwise different taps
  /// In TF32: a team's taps are neighbours in a column of the filter, so that a row of the image serves them all.
  bool shares_rows;
  std::int32_t strip_rows, strip_planes;  // rows of a plane; planes, which lie along the first axis
  std::int32_t box_extents[kPipelineAxes];
  std::int32_t step_rows[kWeightSteps];  // from the box's first row to that of each product
  std::int32_t slots;
  std::int32_t strips, slices, slice_strips;  // of the feature; slices of at most so many strips
  std::int32_t tiles;                         // jobs times slices
  Divider sets_divider, image_divider, feature_divider, strip_divider[kPipelineAxes];
  WeightSet set_list[kMostWeightSets];
  TapGather gather;

  ADJOINT_HD bool is_transposed() const { return element_bytes == 4; }
  /// Positions of a product, which are rows of 8, and so the rows of a strip.
  ADJOINT_HD std::int32_t step_depth() const { return kWeightStepBytes / element_bytes; }
  /// Channels of a panel, and a job's.
  ADJOINT_HD std::int32_t line() const { return kPipelineLineBytes / element_bytes; }
  ADJOINT_HD std::int32_t rows() const { return kPipelineResults * (shares_taps ? teams : 1); }
  ADJOINT_HD std::int32_t feature_channels() const { return is_transposed() ? columns : rows(); }
  ADJOINT_HD std::int32_t image_channels() const { return is_transposed() ? rows() : columns; }
  ADJOINT_HD std::int32_t feature_panels() const { return feature_channels() / line(); }
  ADJOINT_HD std::int32_t image_panels() const { return image_channels() / line(); }
  /// Of the feature.
  ADJOINT_HD std::int32_t panel_bytes() const { return kPipelineStrip * step_depth() * kPipelineLineBytes; }
  ADJOINT_HD std::int32_t transposed_bytes() const { return is_transposed() ? feature_panels() * panel_bytes() : 0; }
  ADJOINT_HD std::int32_t box_copy_bytes() const {
    return box_extents[0] * box_extents[1] * box_extents[2] * box_extents[3] * kPipelineLineBytes;
  }
  /// Swizzles repeat every 1024 bytes.
  ADJOINT_HD std::int32_t box_bytes() const { return (box_copy_bytes() + 1023) / 1024 * 1024; }
  ADJOINT_HD std::int32_t slot_bytes() const { return feature_panels() * panel_bytes() + image_panels() * box_bytes(); }
  ADJOINT_HD std::int32_t smem_bytes() const {
    return kPipelineTableBytes + kWeightTransposedSlots * transposed_bytes() + slots * slot_bytes();
  }
  std::int64_t sums_bytes() const { return std::int64_t{4} * gather.count * taps * slices; }
};

/// A block's work: a job's channels and taps, and a slice's strips.
struct PipelineWeightTile {
  std::int32_t set, image, feature;  // channels: the first ones
  std::int32_t slice, strip, end;
};

/// Jobs of the same strips follow each other, so that the L2 delivers these.
ADJOINT_HD inline PipelineWeightTile pipeline_weight_tile(const PipelineWeightPlan& p, std::int32_t index) {
  PipelineWeightTile tile{};
  std::int32_t job = index;
  index = p.sets_divider.split(job);
  tile.set = job;
  std::int32_t block = index;
  index = p.image_divider.split(block);
  tile.image = block * p.image_channels();
  block = index;
  tile.slice = p.feature_divider.split(block);
  tile.feature = block * p.feature_channels();
  tile.strip = tile.slice * p.slice_strips;
  tile.end = p.strips - tile.strip < p.slice_strips ? p.strips : tile.strip + p.slice_strips;
  return tile;
}

/// A strip's first position.
struct PipelineWeightStrip {
  std::int32_t at[kPipelineAxes];
};

ADJOINT_HD inline PipelineWeightStrip pipeline_weight_strip(const PipelineWeightPlan& p, std::int32_t index) {
  PipelineWeightStrip strip{};
  const std::int32_t size[] = {p.strip_planes, 1, p.strip_rows, kPipelineStrip};
  for (int axis = kPipelineAxes - 1; axis >= 0; --axis) {
    std::int32_t place = index;
    index = p.strip_divider[axis].split(place);
    strip.at[axis] = place * size[axis];
  }
  return strip;
}

/// For a geometry of conv, whose source is the image; there must be one group, and halves or TF32. False if channels
/// are not multiples of 16 bytes, and if boxes are too large.
ADJOINT_API bool plan_pipeline_weight(const PipelineGeometry& geometry, Arithmetic arithmetic, const Machine& machine,
                                      PipelineWeightPlan& plan);
/// The time of the plan's kernels, in clocks of a multiprocessor, as pipeline_clocks.
ADJOINT_API double pipeline_weight_clocks(const PipelineWeightPlan& plan, const Machine& machine);

/// The operands as the copy engine sees them: a phase of the image in boxes, the feature in strips. Both must begin at
/// multiples of 16 bytes.
ADJOINT_API TensorMapLayout weight_image_layout(const PipelineWeightPlan& plan, int phase, const void* data,
                                                DType dtype);
ADJOINT_API TensorMapLayout weight_feature_layout(const PipelineWeightPlan& plan, const void* data, DType dtype);

}  // namespace adjoint::cuda

// The places of conv_weight's stages that the copy engine brings (`boxes` in plan.h): plain C++ for host and device,
// tested without a GPU.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/weight/plan.h>

#include <cstdint>

namespace adjoint::cuda {

/// plan_wgmma_weight() for stages that are boxes. Returns false also for an empty batch; if rows of features do not
/// begin at multiples of 16 bytes, or a line of 128 bytes of them is not part of one row or one plane in any tile; and
/// if rows of the image do not begin at such multiples, unless each is a separate plane, without padding, and every
/// second or fourth channel of a group begins at the same place.
ADJOINT_API bool plan_boxed_weight(const ConvGeometry& geometry, Arithmetic arithmetic, const Machine& machine,
                                   WeightPlan& plan, WeightTile only = {});
/// The tensor maps' layouts: for the image (row's piece, pieces, channels, rows, images), of the channels whose
/// remainder by plan.residues is `residue`; for the feature (row, channels, rows, images), or (plane, channels,
/// images), in lines of 128 bytes. Unsplit float32 is rounded to tf32 by the copy.
ADJOINT_API TensorMapLayout weight_image_layout(const WeightPlan& plan, const void* image, DType dtype, bool split,
                                                std::int32_t residue);
ADJOINT_API TensorMapLayout weight_feature_layout(const WeightPlan& plan, const void* feature, DType dtype, bool split);

/// The starts of a stage's boxes of the image, and of line `line` of its features, on the axes of those layouts.
struct WeightBoxPlace {
  std::int32_t at[kTensorMapAxes];
};
ADJOINT_HD inline WeightBoxPlace weight_image_box(const WeightPlan& p, const WeightWork& work,
                                                  const WeightStage& stage) {
  const WeightTapBlock& taps = p.tap_block[work.tap_block];
  const std::int32_t w = stage.w * p.stride_w + taps.w_base;
  return {{p.log2_box_w == 0 ? w : 0, p.log2_box_w == 0 ? 0 : w >> p.log2_box_w,
           (work.group * p.image_channels + work.first_channel) / p.residues, stage.h * p.stride_h + taps.h_base,
           static_cast<std::int32_t>(stage.n)}};
}
ADJOINT_HD inline WeightBoxPlace weight_feature_box(const WeightPlan& p, const WeightWork& work,
                                                    const WeightStage& stage, std::int32_t line) {
  const std::int32_t position = line * p.line_positions(),
                     channel = work.group * p.feature_channels + work.first_column;
  const auto n = static_cast<std::int32_t>(stage.n) + (position >> (p.log2_tile_w + p.log2_tile_h));
  if (p.joins_rows()) {
    const std::int32_t within = position & ((1 << (p.log2_tile_w + p.log2_tile_h)) - 1);
    return {{stage.h * p.feature_w + within, channel, n, 0, 0}};
  }
  return {{stage.w + (position & ((1 << p.log2_tile_w) - 1)), channel,
           stage.h + (position >> p.log2_tile_w & ((1 << p.log2_tile_h) - 1)), n, 0}};
}

}  // namespace adjoint::cuda

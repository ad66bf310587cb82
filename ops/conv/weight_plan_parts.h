// What the planners of conv_weight's tensor-core kernels share.
#pragma once

#include <adjoint/ops/conv/ceil_div.h>
#include <adjoint/ops/conv/tensor_core_clocks.h>
#include <adjoint/ops/conv/weight_plan.h>

#include <cstdint>

namespace adjoint::cuda::weight_parts {

inline constexpr std::int64_t kMaxStages = std::int64_t{1} << 31;
inline constexpr std::int64_t kMaxWorkspace = std::int64_t{512} << 20;

/// At least `elements`, and 4 modulo 32 banks, so that eight channels' fragments of four units hit each bank once.
inline std::int64_t pitch_of(std::int64_t elements, int unit_elements) {
  return (ceil_div(ceil_div(elements, unit_elements) - 4, 32) * 32 + 4) * unit_elements;
}

/// False for extents from 2^28 on, planes and filters from 2^31, strides above 64.
bool supported(const ConvGeometry& geometry);

/// A plan of the geometry, its tile and blocks still to be chosen.
void set_geometry(const ConvGeometry& geometry, int unit_elements, WeightPlan& plan);

/// The stage's positions and with them the number of stages.
void set_tile(WeightPlan& plan, int log2_tile_n, int log2_tile_h, int log2_tile_w);

/// Cuts the taps into blocks of `taps_per_block` and finds the stage of the image that fits them all; false where that
/// is too large.
bool build_tap_blocks(WeightPlan& plan, std::int32_t taps_per_block);

/// At most `splits` of them, fewer where there are not so many stages.
void set_splits(WeightPlan& plan, std::int64_t splits);

}  // namespace adjoint::cuda::weight_parts

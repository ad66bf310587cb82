// Turns a ConvGeometry into the plans that compute conv and conv_transpose. Internal to ops/conv/cpu.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/cpu/kernels.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace adjoint::cpu {

/// A plan with the memory that it points to.
struct OwnedGatherPlan {
  GatherPlan plan;
  std::vector<Place> tap_places, slot_places;
  std::vector<std::int64_t> kernel_taps;  // (slots, taps): the tap of the filter

  bool by_shifts = false;  // computed by ShiftTiles of at most this extent
  ShiftPlan shifts{};
  Place shift_tile{};
  std::vector<ShiftPlan::Tap> shift_taps;
  std::unique_ptr<bool[]> residue_used;

  /// Elements of scratch memory that a tile needs.
  std::int64_t scratch() const;
};

/// The limits of a plan: rows of a block of the product, positions of a panel, and whether positions with different
/// taps may share a plan. They may if the filter is finite, because a tap outside the image is then multiplied as zero.
struct PlanLimits {
  std::int64_t block = 1, panel = 1;
  bool exact_taps = false;
};

/// feature from image.
ADJOINT_API std::vector<OwnedGatherPlan> conv_plans(const ConvGeometry& geometry, const PlanLimits& limits);
/// image from feature.
ADJOINT_API std::vector<OwnedGatherPlan> conv_transpose_plans(const ConvGeometry& geometry, const PlanLimits& limits);

}  // namespace adjoint::cpu

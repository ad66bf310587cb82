// Cuts the steps of a correlation's classes into passes, given its tile.
#pragma once

#include <adjoint/ops/conv/correlation/plan.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

/// The division of a class's steps into passes; each level's stages are smaller than those of the levels before.
struct CorrelationCut {
  bool by_row = false;
  bool by_step = false;
  std::int32_t planes = 1;

  friend bool operator==(const CorrelationCut&, const CorrelationCut&) = default;
};

/// Fills in the plan's classes and passes, and the shape of its stages. Returns false if they exceed the plan's limits,
/// or a stage is larger than shared memory.
bool build_correlation_passes(const ConvGeometry& geometry, const CorrelationCut& cut, CorrelationPlan& plan);

/// Fills in the steps and taps of a plan whose passes are cut so: separately, because only one of some hundred plans is
/// kept.
void place_correlation_steps(const ConvGeometry& geometry, const CorrelationCut& cut, CorrelationPlan& plan);

}  // namespace adjoint::cuda

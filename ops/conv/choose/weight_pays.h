// Whether conv_weight's kernels that copy both operands pay, as models of clocks tell.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/product/taps.h>
#include <adjoint/ops/conv/weight/blocks_plan.h>

namespace adjoint::cuda {

/// Whether the plan is quicker than any other order of the operands, as models of clocks tell, copies included.
ADJOINT_API bool tapwise_pays(const ConvGeometry& geometry, const TapwisePlan& plan);
/// Whether the plan is quicker than any other kernel, as models of clocks tell, copies included.
ADJOINT_API bool blocked_weight_pays(const ConvGeometry& geometry, const BlockedWeightPlan& plan);

}  // namespace adjoint::cuda

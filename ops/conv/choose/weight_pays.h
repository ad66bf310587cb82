// Whether conv_weight's kernels that copy both operands pay, as models of clocks tell.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/choose/orders.h>
#include <adjoint/ops/conv/product/taps.h>
#include <adjoint/ops/conv/weight/blocks_plan.h>

namespace adjoint::cuda {

/// Whether the plan is quicker than any other order of the operands, as models of clocks tell, copies included.
ADJOINT_API bool tapwise_pays(const TapwisePlan& plan, const WeightOrderChoice& others);
/// Whether the plan is quicker than any other kernel, as models of clocks tell, copies included. `tapwise`: that
/// kernel's plan of the same problem, or null where it has none.
ADJOINT_API bool blocked_weight_pays(const BlockedWeightPlan& plan, const TapwisePlan* tapwise,
                                     const WeightOrderChoice& others);

}  // namespace adjoint::cuda

// Which order of its operands serves conv_weight best, as models of clocks tell, copies included.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/orders.h>

namespace adjoint::cuda {

/// Whether conv_weight is done sooner by the copy engine in another order of its operands than as they are. `plan`
/// then.
ADJOINT_API bool plan_weight_order(const ConvGeometry& geometry, Arithmetic arithmetic, RearrangedPlan& plan);

}  // namespace adjoint::cuda

// Which order of its operands serves a problem best, as models of clocks tell, copies included.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/orders.h>

namespace adjoint::cuda {

struct WeightPlan;

/// Whether conv_weight is done sooner by the copy engine in another order of its operands than as they are. `plan`
/// then.
ADJOINT_API bool plan_weight_order(const ConvGeometry& geometry, Arithmetic arithmetic, const Machine& machine,
                                   RearrangedPlan& plan);

/// Whether a plan of boxes is the better one of the same problem than one whose threads copy: a line of features is
/// part of one row or of one plane, and where that is shorter, positions are padded to it.
ADJOINT_API bool boxes_pay(const WeightPlan& boxes, const WeightPlan& copied);

/// Whether conv, or conv_transpose, is done sooner by the tensor-core kernels in another order of its operands: with
/// strides as channels, or conv of half precision with rows of the image padded. `plan` then.
ADJOINT_API bool plan_conv_order(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                                 const Machine& machine, RearrangedPlan& plan);

}  // namespace adjoint::cuda

// Which order of its operands serves a problem best, as models of clocks tell, copies included.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/orders.h>

namespace adjoint::cuda {

/// Whether conv_weight is done sooner by the copy engine in another order of its operands than as they are. `plan`
/// then.
ADJOINT_API bool plan_weight_order(const ConvGeometry& geometry, Arithmetic arithmetic, const Machine& machine,
                                   RearrangedPlan& plan);

/// Whether conv, or conv_transpose, is done sooner by the tensor-core kernels in another order of its operands: with
/// strides as channels, or conv of half precision with rows of the image padded. `plan` then.
ADJOINT_API bool plan_conv_order(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                                 const Machine& machine, RearrangedPlan& plan);

}  // namespace adjoint::cuda

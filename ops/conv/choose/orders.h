// Which order of its operands serves a problem best, as models of clocks tell, copies included.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/orders.h>

namespace adjoint::cuda {

/// The order in which conv_weight is done the soonest by the copy engine; false where that is the order as it is.
ADJOINT_API bool plan_conv_weight_order(const ConvGeometry& geometry, Arithmetic arithmetic, RearrangedPlan& plan);

/// Whether conv, or conv_transpose, is done sooner by the tensor-core kernels in another order of its operands: with
/// strides as channels, or conv of half precision with rows of the image padded. `plan` then.
ADJOINT_API bool plan_conv_order(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                                 RearrangedPlan& plan);

struct WeightOrderClocks {
  double clocks;
  bool copies;  // whether an operand is copied
};
/// What conv_weight takes in the quickest of those orders, copies included; as it is, less what models are off by.
WeightOrderClocks conv_weight_clocks(const ConvGeometry& geometry, Arithmetic arithmetic);

}  // namespace adjoint::cuda

// Which order of its operands serves a problem best, as models of clocks tell, copies included.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/orders.h>

namespace adjoint::cuda {

/// The order in which conv_weight is done the soonest by the copy engine.
struct WeightOrderChoice {
  RearrangedPlan plan;  // where an operand is copied
  bool copies;          // whether any is: else the order is the operands' own
  double clocks;        // copies included; as it is, less what models are off by
};
ADJOINT_API WeightOrderChoice choose_weight_order(const ConvGeometry& geometry, Arithmetic arithmetic);

/// Whether conv, or conv_transpose, is done sooner by the tensor-core kernels in another order of its operands: with
/// strides as channels, or conv of half precision with rows of the image padded. `plan` then.
ADJOINT_API bool plan_conv_order(const ConvGeometry& geometry, bool transposed, Arithmetic arithmetic,
                                 RearrangedPlan& plan);

}  // namespace adjoint::cuda

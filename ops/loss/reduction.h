// Shared by the losses: checks of their operands, and reductions of losses that other operators computed. Internal to
// ops.
#pragma once

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/loss/loss.h>

namespace adjoint::loss {

/// Throws Error, naming `op`, unless x is defined and floating point.
void check_floating(const char* op, const char* what, const Tensor& x);
/// Throws Error, naming `op` and both, unless the operands are defined, floating point, of one dtype and one shape.
void check_pair(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b);
/// Throws Error for kBatchMean and for values outside the enumeration.
inline void check_reduction(const char* op, Reduction reduction) {
  ADJOINT_CHECK(reduction != Reduction::kBatchMean,
                "{}: reduction must be kMean, kSum or kNone; got kBatchMean, which kl_div alone has", op);
  check_enumerator(op, "Reduction", reduction, Reduction::kNone);
}
/// `weight` in x's shape and dtype. Throws Error, naming `op` and both shapes, if it does not expand.
Tensor expanded(const char* op, const char* what, const Tensor& weight, const Tensor& x);
/// kNone returns `each` itself; kBatchMean is not supported.
Tensor reduced(const Tensor& each, Reduction reduction);

}  // namespace adjoint::loss

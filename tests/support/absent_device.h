// Operands of a device that this machine need not have.
#pragma once

#include <adjoint/core/tensor/shape.h>
#include <adjoint/core/tensor/tensor.h>

namespace adjoint::testing {

/// A tensor that claims to be on cuda:0 and has no memory: for checks that precede all reads.
Tensor on_absent_device(const Shape& shape);

}  // namespace adjoint::testing

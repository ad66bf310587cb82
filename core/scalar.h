// Numbers that a caller gives in C++'s double where a tensor's dtype is meant. Internal to core and ops.
#pragma once

#include <adjoint/core/dtype.h>
#include <adjoint/core/shape.h>

namespace adjoint {

/// `value` rounded to `dtype`, once. Throws Error, naming `op`, where the dtype cannot hold it (core/convert.h);
/// `shape` is the message's.
ADJOINT_API double fit_scalar(const char* op, double value, DType dtype, const Shape& shape);

}  // namespace adjoint

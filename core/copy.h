// Copies between any two tensors of one shape: any strides, dtypes and devices. Not recorded.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

namespace adjoint {

/// dst = src, element by element, converting as static_cast does (bool: not equal to 0). Shapes are equal; dst is
/// written where its strides say, so its elements must not overlap.
ADJOINT_API void copy_into(const Tensor& src, Tensor& dst);

/// An unrecorded contiguous copy; the tensor itself where it is contiguous already.
ADJOINT_API Tensor contiguous_copy(const Tensor& tensor);

}  // namespace adjoint

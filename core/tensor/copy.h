// Copies between any two tensors of one shape: any strides, dtypes and devices. Not recorded.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

namespace adjoint {

/// dst = src, element by element, converting as convert.h does (bool: not equal to 0). Shapes are equal; dst is written
/// through its strides, so its elements must not overlap.
ADJOINT_API void copy_into(const Tensor& src, Tensor& dst);

/// An unrecorded contiguous copy, or the tensor itself if it is contiguous already.
ADJOINT_API Tensor contiguous_copy(const Tensor& tensor);

}  // namespace adjoint

// Cuts a signal into overlapping frames, and adds frames up to a signal.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {

/// x (..., L) -> (..., 1 + (L - size) / hop, size): frame t is x[t hop], ..., x[t hop + size - 1]. The result is a
/// view, whose frames share elements if hop < size; elements outside all whole frames are left out. Any dtype.
/// Differentiable: the adjoint is overlap_add. Throws Error for size or hop below 1 and for a signal shorter than one
/// frame.
ADJOINT_API Tensor frame(const Tensor& x, std::int64_t size, std::int64_t hop);

/// The adjoint of frame: frames (..., T, size) -> (..., length), each element the sum, in the order of frames, of the
/// frame elements over it. `length` is at least (T - 1) hop + size, the meaning of 0; a longer result ends in zeros.
/// Differentiable. float16 and bfloat16 are summed in float32. Throws Error for a dtype that is not floating point,
/// without frames, for hop below 1 and for a shorter length.
ADJOINT_API Tensor overlap_add(const Tensor& frames, std::int64_t hop, std::int64_t length = 0);

}  // namespace adjoint

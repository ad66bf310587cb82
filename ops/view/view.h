// Functions beside Tensor's view members (reshape, permute, narrow, expand, ...), whose gradients they complete.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

/// Zeros with `input` placed inside: along `axis` the result has `extent` elements, and input's stand at
/// [start, start + input.size(axis)). The adjoint of narrow(axis, start, length): each is the other's gradient.
/// Any dtype. Throws Error for an axis outside the rank and for a range outside [0, extent).
ADJOINT_API Tensor embed(const Tensor& input, std::int64_t axis, std::int64_t start, std::int64_t extent);

/// `input` summed over the axes along which `shape` broadcasts to its shape: the adjoint of input.expand(...).
/// Throws Error where `shape` does not broadcast to input's.
ADJOINT_API Tensor sum_to(const Tensor& input, const Shape& shape);

}  // namespace adjoint

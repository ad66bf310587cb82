// Joining and padding tensors.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>
#include <vector>

namespace adjoint {

/// The tensors one after the other along `axis`, which may be negative. Differentiable.
/// Throws Error unless there is one at least, and all share dtype, device, rank and every other extent.
ADJOINT_API Tensor cat(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

/// The tensors, all of one shape, along a new axis: `axis` is its place in the result, and may be negative.
/// Differentiable. Throws Error as cat does.
ADJOINT_API Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

/// `x` with `value` around it. `padding` holds a pair (before, after) for each axis, the last axis first, as
/// torch.nn.functional.pad takes it: {left, right, top, bottom}. A negative amount cuts. Differentiable.
/// Throws Error for half a pair, more pairs than axes, cuts beyond an axis's extent, and a value that x's dtype cannot
/// hold, as Tensor::full does.
ADJOINT_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, double value = 0.0);

}  // namespace adjoint

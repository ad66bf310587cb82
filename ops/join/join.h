// Joining tensors; padding them is pad/pad.h.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/pad/pad.h>

#include <cstdint>
#include <vector>

namespace adjoint {

/// The tensors concatenated along `axis`, which may be negative. Differentiable. Throws Error for no tensors, and
/// unless all share dtype, device, rank and every other extent.
ADJOINT_API Tensor cat(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

/// The tensors, all of one shape, stacked along a new axis: `axis` is its place in the result, and may be negative.
/// Differentiable. Throws Error as cat does.
ADJOINT_API Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

}  // namespace adjoint

// Random tensors that depend on others.
#pragma once

#include <adjoint/core/tensor.h>

namespace adjoint {

/// 1 with probability p, else 0, for each element of `probabilities` p, floating point; of its shape and dtype, from
/// the global generator. Not differentiable. Throws Error on the CPU unless every p lies in [0, 1]; on CUDA, where that
/// would have to wait for the device, a p below 0 and NaN count as 0 and one above 1 as 1.
ADJOINT_API Tensor bernoulli(const Tensor& probabilities);

/// The same with one probability, in x's shape and dtype (any). Throws Error unless p lies in [0, 1].
ADJOINT_API Tensor bernoulli(const Tensor& x, double p);

}  // namespace adjoint

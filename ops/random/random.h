// Random tensors that depend on others.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {

/// 1 with probability p, else 0, for each element p of `probabilities`, floating point. The result has its shape and
/// dtype, and uses the global generator. Not differentiable. On the CPU throws Error unless every p is in [0, 1]; on
/// CUDA, where a check would wait for the device, a p below 0 and NaN count as 0 and a p above 1 as 1.
ADJOINT_API Tensor bernoulli(const Tensor& probabilities);

/// bernoulli with one probability, in x's shape and dtype (any). Throws Error unless p is in [0, 1].
ADJOINT_API Tensor bernoulli(const Tensor& x, double p);

/// While `training`, elements chosen at random with probability p become 0, infinities and NaN too, and the others are
/// scaled by 1 / (1 - p); else x itself. Draws from the global generator. Any floating-point dtype; differentiable to
/// any order. Throws Error for p outside [0, 1].
ADJOINT_API Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
/// Drops whole channels: x (N, C, H, W) or (C, H, W). Throws Error for other numbers of axes, too.
ADJOINT_API Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);
/// Drops whole channels of volumes: x (N, C, D, H, W) or (C, D, H, W).
ADJOINT_API Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);

/// (C) -> (num_samples), (N, C) -> (N, num_samples), int64: indices drawn from the global generator with the row's
/// weights, which need not add up to 1. Without `replacement` no index is drawn twice. Not differentiable. Throws Error
/// for weights that are not floating point, negative or not finite, for rows whose weights are all 0, for fewer than
/// one sample, and without replacement for more than a row has weights above 0. Waits for the device.
ADJOINT_API Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement = false);

}  // namespace adjoint

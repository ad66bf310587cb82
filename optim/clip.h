// Gradient clipping, between backward() and step().
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <vector>

namespace adjoint::optim {

struct ClipGradNormOptions {
  /// p of the p-norm, above 0; infinity: the largest magnitude.
  double norm_type = 2.0;
  /// Throw Error, and change nothing, if the norm is NaN or infinite. Waits for the device.
  bool error_if_nonfinite = false;
};

// Both clip in place. A gradient that a tape recorded (.record), or that several parameters share, is not changed,
// because others hold it: the parameter gets a clipped copy, which is not recorded. If they throw, they change nothing.

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the norm of all their elements together, as
/// in PyTorch, and returns the original norm (float64, a scalar on their device). Sums in float64, without waiting for
/// the device. Skips parameters without gradients. Throws Error for a max_norm that is negative or NaN, a norm_type
/// that is not positive, and gradients on several devices.
ADJOINT_API Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                                   const ClipGradNormOptions& options = {});

/// Clamps every element of every gradient to [-clip_value, clip_value]; NaN stays NaN. Throws Error for a clip_value
/// that is negative or NaN.
ADJOINT_API void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace adjoint::optim

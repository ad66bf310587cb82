// Windows: smooth weights of a frame's elements.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

// All of them: (length), for the whole cosine's period P, which is `length` for a periodic window, the one that frames
// want, and length - 1 for a symmetric one; (1) is 1. Computed in float64 and rounded once. Throws Error for a negative
// length and a dtype that is not floating point.

/// 0.5 - 0.5 cos(2 pi k / P).
ADJOINT_API Tensor hann_window(std::int64_t length, bool periodic = true, const TensorOptions& options = {});
/// alpha - beta cos(2 pi k / P).
ADJOINT_API Tensor hamming_window(std::int64_t length, bool periodic = true, double alpha = 0.54, double beta = 0.46,
                                  const TensorOptions& options = {});
/// 0.42 - 0.5 cos(2 pi k / P) + 0.08 cos(4 pi k / P).
ADJOINT_API Tensor blackman_window(std::int64_t length, bool periodic = true, const TensorOptions& options = {});

}  // namespace adjoint

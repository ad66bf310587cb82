// Windows: smooth weights for the elements of a frame.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {

// Every window has shape (length). The cosine's period P is `length` for a periodic window, which frames need, and
// length - 1 for a symmetric one; a window of one element is 1. Values are computed in float64 and rounded once. The
// functions throw Error for a negative length and a dtype that is not floating point.

/// 0.5 - 0.5 cos(2 pi k / P).
ADJOINT_API Tensor hann_window(std::int64_t length, bool periodic = true, const TensorOptions& options = {});
/// alpha - beta cos(2 pi k / P).
ADJOINT_API Tensor hamming_window(std::int64_t length, bool periodic = true, double alpha = 0.54, double beta = 0.46,
                                  const TensorOptions& options = {});
/// 0.42 - 0.5 cos(2 pi k / P) + 0.08 cos(4 pi k / P).
ADJOINT_API Tensor blackman_window(std::int64_t length, bool periodic = true, const TensorOptions& options = {});

}  // namespace adjoint

// Comparisons of whole tensors: equal, or nearly equal. Any dtype; operands broadcast and are converted to a common
// dtype as in a == b, and float16 and bfloat16 are compared in float32, integers in float64. No gradient. Throws Error
// as a == b does.
#pragma once

#include <adjoint/core/tensor/tensor.h>

namespace adjoint {

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  /// NaN is close to NaN.
  bool equal_nan = false;
};
/// True where |a - b| <= atol + rtol |b|, as bool; infinities are close only to themselves. Throws Error for tolerances
/// that are negative or NaN.
ADJOINT_API Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Returns true if isclose holds for all elements. Waits for the device.
ADJOINT_API bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Returns true if both have one shape and equal elements; NaN equals nothing. Waits for the device.
ADJOINT_API bool equal(const Tensor& a, const Tensor& b);

}  // namespace adjoint

// Whether tensors are equal, or nearly so. Any dtype; operands broadcast and take a common dtype as a == b does, and
// float16 and bfloat16 are compared in float32, integers in float64. No gradient. Throws Error as a == b does.
#pragma once

#include <adjoint/core/tensor/tensor.h>

namespace adjoint {

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  /// NaN is close to NaN.
  bool equal_nan = false;
};
/// Where |a - b| <= atol + rtol |b|, as bool; infinities are close to themselves alone. Throws Error for tolerances
/// that are negative or NaN.
ADJOINT_API Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Whether that holds for all elements. Waits for the device.
ADJOINT_API bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Whether both have one shape and equal elements; NaN equals nothing. Waits for the device.
ADJOINT_API bool equal(const Tensor& a, const Tensor& b);

}  // namespace adjoint

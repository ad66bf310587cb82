// The convolution trio as operators: closed under differentiation, so gradients of any order are these three again.
// Programs use conv.h; this is for operators, gradient rules and tests.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/geometry.h>

namespace adjoint {

// Shapes: image (N, Ci, H, W), feature (N, Cf, h, w), filter (Cf, Ci / groups, kh, kw); without H, h and kh where
// geometry.rank is 1. The operands must have exactly the geometry's shapes, and one floating-point dtype and device.

ADJOINT_API Shape image_shape(const ConvGeometry& geometry);
ADJOINT_API Shape feature_shape(const ConvGeometry& geometry);
ADJOINT_API Shape filter_shape(const ConvGeometry& geometry);

/// Throws Error, naming `op`, for a geometry that describes no problem.
ADJOINT_API void check_geometry(const char* op, const ConvGeometry& geometry);

/// feature = sum over taps of image * filter, plus `bias` (Cf) where it is defined.
ADJOINT_API Tensor conv(const Tensor& image, const Tensor& filter, const Tensor& bias, const ConvGeometry& geometry);
/// image = sum over taps of feature * filter, plus `bias` (Ci) where it is defined.
ADJOINT_API Tensor conv_transpose(const Tensor& feature, const Tensor& filter, const Tensor& bias,
                                  const ConvGeometry& geometry);
/// filter = sum over batch and positions of image * feature.
ADJOINT_API Tensor conv_weight(const Tensor& image, const Tensor& feature, const ConvGeometry& geometry);

}  // namespace adjoint

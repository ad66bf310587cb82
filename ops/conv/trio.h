// The convolution trio as operators: closed under differentiation, so gradients of any order are these three again.
// Programs use conv.h; this is for operators, gradient rules and tests.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/elementwise/activation.h>

namespace adjoint {

// Shapes: image (N, Ci, D, H, W), feature (N, Cf, d, h, w), filter (Cf, Ci / groups, kd, kh, kw), each with the last
// geometry.rank of its spatial axes. The operands must have exactly the geometry's shapes, and one floating-point dtype
// and device.

ADJOINT_API Shape image_shape(const ConvGeometry& geometry);
ADJOINT_API Shape feature_shape(const ConvGeometry& geometry);
ADJOINT_API Shape filter_shape(const ConvGeometry& geometry);

/// Throws Error, naming `op`, for a geometry that describes no problem.
ADJOINT_API void check_geometry(const char* op, const ConvGeometry& geometry);

// An activation of sum and bias gives the bits of activate() in float32 and float64. In float16 and bfloat16,
// convolutions that fuse it (fuses_into_convolution) activate the sums before rounding them, which saves one rounding.
// For the gradient the result is kept instead of the activation's input; if the derivative does not follow from the
// result, both are computed in one pass, and the input is kept.

/// feature = activation of (sum over taps of image * filter, plus `bias` (Cf) if it is defined).
ADJOINT_API Tensor conv(const Tensor& image, const Tensor& filter, const Tensor& bias, const ConvGeometry& geometry,
                        const Activation& activation = {});
/// image = activation of (sum over taps of feature * filter, plus `bias` (Ci) if it is defined).
ADJOINT_API Tensor conv_transpose(const Tensor& feature, const Tensor& filter, const Tensor& bias,
                                  const ConvGeometry& geometry, const Activation& activation = {});
/// filter = sum over batch and positions of image * feature. In channels_last if `format` says so and an operand is in
/// it, otherwise contiguous.
ADJOINT_API Tensor conv_weight(const Tensor& image, const Tensor& feature, const ConvGeometry& geometry,
                               MemoryFormat format = kContiguous);

}  // namespace adjoint

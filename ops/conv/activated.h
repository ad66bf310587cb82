// conv and conv_transpose with an activation behind them, as one operator: the activation is computed where the result
// is stored, and its derivative where the backward pass reads the result's gradient. Programs use conv.h.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/elementwise/activation.h>

namespace adjoint {

// activate(conv(image, filter, bias, geometry), activation), with the same bits in float32 and float64. In float16 and
// bfloat16 the sums are activated before they are rounded, so there is one rounding fewer. Gradients of any order.
//
// For the gradient the result is kept, in place of what the activation reads; where the derivative does not follow from
// it (silu, leaky_relu of a negative slope), both are computed in one pass, and the latter is kept.

ADJOINT_API Tensor conv_activated(const Tensor& image, const Tensor& filter, const Tensor& bias,
                                  const ConvGeometry& geometry, const Activation& activation);
ADJOINT_API Tensor conv_transpose_activated(const Tensor& feature, const Tensor& filter, const Tensor& bias,
                                            const ConvGeometry& geometry, const Activation& activation);

}  // namespace adjoint

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
// The result is kept for the gradient, in place of what the activation reads. Where the derivative does not follow from
// it (silu, leaky_relu of a negative slope) and a tape records, the two are computed, rounded and recorded one after
// the other.

ADJOINT_API Tensor conv_activated(const Tensor& image, const Tensor& filter, const Tensor& bias,
                                  const ConvGeometry& geometry, const Activation& activation);
ADJOINT_API Tensor conv_transpose_activated(const Tensor& feature, const Tensor& filter, const Tensor& bias,
                                            const ConvGeometry& geometry, const Activation& activation);

}  // namespace adjoint

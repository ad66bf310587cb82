// Elementwise functions. Tensors broadcast by NumPy's rule; the operands of one call share a dtype and a device.
//
// A scalar operand is one that stands where a tensor could: of + - * / and mul_, of a comparison, pow's exponent, and
// clamp's bounds. It is rounded to the tensor's dtype once, so that x op s is x op Tensor::full({}, s, x.options()),
// bit for bit, and the gradient is that operator's. The dtype must hold it: an integer dtype exactly, a floating-point
// dtype as anything but a finite number that would become infinite; clamp takes infinity for no bound. Parameters, such
// as leaky_relu's slope and add_'s scale, are used in the precision that is computed in. Arithmetic on integers wraps
// around. float16 and bfloat16 are computed in float32 and rounded once. Every function is differentiable, to any
// order, unless it says otherwise. Throws Error for undefined tensors, dtypes a function does not take, mixed dtypes or
// devices, and shapes that do not broadcast.
//
// +, -, *, / and the comparisons are operators of Tensor (core/tensor.h).
#pragma once

#include <adjoint/core/tensor.h>

#include <limits>

namespace adjoint {

// ---- Mathematics. Floating point only, but for abs, sign, square, minimum, maximum and clamp, which take integers
// too.

ADJOINT_API Tensor exp(const Tensor& x);
ADJOINT_API Tensor log(const Tensor& x);
/// The gradient at 0 is infinite.
ADJOINT_API Tensor sqrt(const Tensor& x);
ADJOINT_API Tensor sin(const Tensor& x);
ADJOINT_API Tensor cos(const Tensor& x);
ADJOINT_API Tensor tanh(const Tensor& x);
/// The gradient at 0 is 0.
ADJOINT_API Tensor abs(const Tensor& x);
/// -1, 0 or 1; 0 for NaN. Its gradient is zero.
ADJOINT_API Tensor sign(const Tensor& x);
ADJOINT_API Tensor square(const Tensor& x);
/// An exponent of 0 gives 1 everywhere, NaN included, and a zero gradient.
ADJOINT_API Tensor pow(const Tensor& base, double exponent);
/// The exponent's gradient is 0 where the base is 0 and the exponent is not negative.
ADJOINT_API Tensor pow(const Tensor& base, const Tensor& exponent);
/// NaN wins. Where the operands are equal, each gets half of the gradient.
ADJOINT_API Tensor minimum(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor maximum(const Tensor& a, const Tensor& b);
/// min(max(x, low), high); NaN stays. The gradient passes inside the bounds and on them.
ADJOINT_API Tensor clamp(const Tensor& x, double low, double high);
ADJOINT_API Tensor clamp_min(const Tensor& x, double low);
ADJOINT_API Tensor clamp_max(const Tensor& x, double high);

// ---- Activations. Floating point only, but for relu, which takes integers too.

/// max(x, 0). The gradient at 0 is 0.
ADJOINT_API Tensor relu(const Tensor& x);
/// x where x > 0, else negative_slope * x. The gradient at 0 is that of the negative side.
ADJOINT_API Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// x where x > 0, else weight * x; `weight` (C), one value for each element of x's axis 1, or (1). At 0 as leaky_relu.
ADJOINT_API Tensor prelu(const Tensor& x, const Tensor& weight);
/// 1 / (1 + exp(-x)).
ADJOINT_API Tensor sigmoid(const Tensor& x);
/// x * sigmoid(x), also called swish (Elfwing, Uchibe, Doya: "Sigmoid-weighted linear units", 2017).
ADJOINT_API Tensor silu(const Tensor& x);
/// log(1 + exp(x)), computed so that neither end overflows or cancels.
ADJOINT_API Tensor softplus(const Tensor& x);

// ---- Selection.

/// a where `condition` (bool) holds, else b. Any dtype for a and b; all three broadcast. `condition` has no gradient.
ADJOINT_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

}  // namespace adjoint

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

#include <cstdint>
#include <limits>
#include <optional>

namespace adjoint {

// ---- Mathematics. Floating point only, but for abs, sign, square, minimum, maximum, clamp, fmod, remainder and what
// rounds to integers, which take integers too.

ADJOINT_API Tensor exp(const Tensor& x);
/// exp(x) - 1, accurate near 0.
ADJOINT_API Tensor expm1(const Tensor& x);
ADJOINT_API Tensor log(const Tensor& x);
/// log(1 + x), accurate near 0.
ADJOINT_API Tensor log1p(const Tensor& x);
ADJOINT_API Tensor log2(const Tensor& x);
/// The gradient at 0 is infinite.
ADJOINT_API Tensor sqrt(const Tensor& x);
/// 1 / sqrt(x).
ADJOINT_API Tensor rsqrt(const Tensor& x);
/// 1 / x.
ADJOINT_API Tensor reciprocal(const Tensor& x);
ADJOINT_API Tensor sin(const Tensor& x);
ADJOINT_API Tensor cos(const Tensor& x);
ADJOINT_API Tensor tan(const Tensor& x);
ADJOINT_API Tensor asin(const Tensor& x);
ADJOINT_API Tensor acos(const Tensor& x);
ADJOINT_API Tensor atan(const Tensor& x);
/// The angle of the point (x, y), in [-pi, pi].
ADJOINT_API Tensor atan2(const Tensor& y, const Tensor& x);
ADJOINT_API Tensor sinh(const Tensor& x);
ADJOINT_API Tensor cosh(const Tensor& x);
ADJOINT_API Tensor tanh(const Tensor& x);
/// The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
ADJOINT_API Tensor erf(const Tensor& x);
/// The gradient at 0 is 0.
ADJOINT_API Tensor abs(const Tensor& x);
/// -1, 0 or 1; 0 for NaN. Its gradient is zero.
ADJOINT_API Tensor sign(const Tensor& x);
/// -x, as the operator.
ADJOINT_API Tensor neg(const Tensor& x);
ADJOINT_API Tensor square(const Tensor& x);
/// To an integer: down, up, towards 0, and to the nearest, ties to even. Their gradients are zero.
ADJOINT_API Tensor floor(const Tensor& x);
ADJOINT_API Tensor ceil(const Tensor& x);
ADJOINT_API Tensor trunc(const Tensor& x);
ADJOINT_API Tensor round(const Tensor& x);
/// a - trunc(a / b) b, with a's sign. Where b is 0, NaN, and 0 of integers. d/db is -trunc(a / b).
ADJOINT_API Tensor fmod(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor fmod(const Tensor& a, double b);
/// a - floor(a / b) b, with b's sign; else as fmod, d/db being -floor(a / b).
ADJOINT_API Tensor remainder(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor remainder(const Tensor& a, double b);
/// An exponent of 0 gives 1 everywhere, NaN included, and a zero gradient.
ADJOINT_API Tensor pow(const Tensor& base, double exponent);
/// The exponent's gradient is 0 where the base is 0 and the exponent is not negative.
ADJOINT_API Tensor pow(const Tensor& base, const Tensor& exponent);
ADJOINT_API Tensor pow(double base, const Tensor& exponent);
/// NaN wins. Where the operands are equal, each gets half of the gradient.
ADJOINT_API Tensor minimum(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor maximum(const Tensor& a, const Tensor& b);
/// min(max(x, low), high); NaN stays. The gradient passes inside the bounds and on them.
ADJOINT_API Tensor clamp(const Tensor& x, double low, double high);
ADJOINT_API Tensor clamp_min(const Tensor& x, double low);
ADJOINT_API Tensor clamp_max(const Tensor& x, double high);
/// start + weight (end - start), exact for weights of 0 and 1.
ADJOINT_API Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
ADJOINT_API Tensor lerp(const Tensor& start, const Tensor& end, double weight);

// ---- Activations. Floating point only, but for relu, which takes integers too.

/// max(x, 0), 0 of -0 too. The gradient at 0 is 0.
ADJOINT_API Tensor relu(const Tensor& x);
/// x where x > 0, else negative_slope * x. The gradient at 0 is that of the negative side.
ADJOINT_API Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// x where x > 0, else weight * x; `weight` (C), one value for each element of x's axis 1, or (1). At 0 as leaky_relu.
ADJOINT_API Tensor prelu(const Tensor& x, const Tensor& weight);
/// 1 / (1 + exp(-x)).
ADJOINT_API Tensor sigmoid(const Tensor& x);
/// x * sigmoid(x), also called swish (Elfwing, Uchibe, Doya: "Sigmoid-weighted linear units", 2017).
ADJOINT_API Tensor silu(const Tensor& x);
/// log(1 + exp(beta x)) / beta, computed so that neither end overflows or cancels; x where beta x > threshold.
ADJOINT_API Tensor softplus(const Tensor& x, double beta = 1.0, double threshold = 20.0);
/// log(sigmoid(x)).
ADJOINT_API Tensor logsigmoid(const Tensor& x);
/// min(max(x, 0), 6). The gradient at 0 and 6 is 0.
ADJOINT_API Tensor relu6(const Tensor& x);
/// min(max(x, min_val), max_val). The gradient at the bounds is 0.
ADJOINT_API Tensor hardtanh(const Tensor& x, double min_val = -1.0, double max_val = 1.0);
/// x where x > 0, else alpha (exp(x) - 1).
ADJOINT_API Tensor elu(const Tensor& x, double alpha = 1.0);
/// elu with alpha 1.6732..., times 1.0507... (Klambauer et al.: "Self-normalizing neural networks", 2017).
ADJOINT_API Tensor selu(const Tensor& x);
/// x times a standard normal's distribution function (Hendrycks, Gimpel: "Gaussian error linear units", 2016).
ADJOINT_API Tensor gelu(const Tensor& x);
/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, the same article's approximation of gelu.
ADJOINT_API Tensor gelu_tanh(const Tensor& x);
/// x / (1 + |x|); NaN of infinity, as PyTorch's, where the gradient is 0.
ADJOINT_API Tensor softsign(const Tensor& x);
/// x tanh(softplus(x)) (Misra: "Mish", 2019).
ADJOINT_API Tensor mish(const Tensor& x);
/// min(max(x + 3, 0), 6) / 6, whose gradient at -3 and 3 is 0, and x times that, 0 of -infinity, whose gradient is -1/2
/// at -3 and 3/2 at 3 (Howard et al.: "Searching for MobileNetV3", 2019).
ADJOINT_API Tensor hardsigmoid(const Tensor& x);
ADJOINT_API Tensor hardswish(const Tensor& x);
/// The first half of `axis` times the sigmoid of the second. Throws Error for an odd extent.
ADJOINT_API Tensor glu(const Tensor& x, std::int64_t axis = -1);
/// x + sin(a x)^2 / a; `a` (C), one value for each element of x's axis 1, or (1) (Ziyin, Hartwig, Ueda: "Neural
/// networks fail to learn periodic functions and how to fix it", 2020). NaN where a is 0.
ADJOINT_API Tensor snake(const Tensor& x, const Tensor& a);

// ---- Selection.

/// a where `condition` (bool) holds, else b. Any dtype for a and b; all three broadcast. `condition` has no gradient. A
/// scalar is rounded to the other's dtype, which must hold it; of two, the result is float32.
ADJOINT_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
ADJOINT_API Tensor where(const Tensor& condition, const Tensor& a, double b);
ADJOINT_API Tensor where(const Tensor& condition, double a, const Tensor& b);
ADJOINT_API Tensor where(const Tensor& condition, double a, double b);
/// `value` where `mask` (bool) holds, else x.
ADJOINT_API Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

/// Finite numbers in place of NaN and infinities; their gradient is zero. `posinf` and `neginf` are the dtype's largest
/// and least finite numbers where they are left out. Integers stay as they are, whatever numbers are given: they have
/// nothing to replace. Throws Error where a floating-point dtype cannot hold a number given.
ADJOINT_API Tensor nan_to_num(const Tensor& x, double nan = 0.0, std::optional<double> posinf = {},
                              std::optional<double> neginf = {});

// ---- Logic and tests. Any dtype; the result is bool and has no gradient. What is not 0 is true, NaN too.

ADJOINT_API Tensor logical_and(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor logical_or(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor logical_xor(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor logical_not(const Tensor& x);
/// The same of bool tensors, as masks are combined: (x > 0) & ~padding. Throw Error for other dtypes, of which
/// PyTorch's operators take the bits.
ADJOINT_API Tensor operator&(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator|(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator^(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator~(const Tensor& x);
ADJOINT_API Tensor isnan(const Tensor& x);
ADJOINT_API Tensor isinf(const Tensor& x);
ADJOINT_API Tensor isfinite(const Tensor& x);

}  // namespace adjoint

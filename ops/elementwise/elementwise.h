// Elementwise functions. Tensors broadcast by NumPy's rule; the operands of one call share a device.
//
// Operands of several dtypes are promoted as in PyTorch: bool becomes an integer beside one, and both become
// floating-point beside a floating-point tensor. Of two integer dtypes the wider wins; a tensor without axes is
// converted to the dtype of one with axes. Two different floating-point dtypes throw Error, because the program must
// choose one. A function that is defined only for floating point computes integers and bool in float32.
//
// Some functions accept a scalar in place of a tensor: + - * / and mul_, comparisons, pow's exponent, and clamp's
// bounds. A real scalar makes an integer tensor float32, and an integer scalar makes a bool tensor int64. Otherwise the
// scalar is rounded once to the tensor's dtype, so that x op s equals x op Tensor::full({}, s, x.options()), bit for
// bit, with that operator's gradient. The dtype must hold the scalar: an integer dtype exactly, a floating-point dtype
// without turning a finite number into an infinity; clamp treats infinity as no bound. Parameters, such as leaky_relu's
// slope and add_'s scale, are used in the precision of the computation. Arithmetic on integers wraps around. float16
// and bfloat16 are computed in float32 and rounded once. Every function is differentiable, to any order, unless stated
// otherwise. Throws Error for undefined tensors, dtypes that a function does not accept, mixed floating-point dtypes,
// mixed devices, and shapes that do not broadcast.
//
// +, -, *, / and the comparisons are operators of Tensor (core/tensor/tensor.h).
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/core/tensor/unary_functions.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace adjoint {

// ---- Mathematics. Floating point only, except abs, sign, square, minimum, maximum, clamp, fmod, remainder, pow and
// the roundings, which also accept integers and return them.

// exp(x), log(x), floor(x), ...: the table's comments define them.
#define ADJOINT_UNARY_FUNCTION(Functor, function) ADJOINT_API Tensor function(const Tensor& x);
ADJOINT_UNARY_MATH_FUNCTIONS(ADJOINT_UNARY_FUNCTION)
ADJOINT_STEP_FUNCTIONS(ADJOINT_UNARY_FUNCTION)
#undef ADJOINT_UNARY_FUNCTION

/// The angle of the point (x, y), in [-pi, pi].
ADJOINT_API Tensor atan2(const Tensor& y, const Tensor& x);
ADJOINT_API Tensor tanh(const Tensor& x);
/// -x, like the operator.
ADJOINT_API Tensor neg(const Tensor& x);
/// a - trunc(a / b) b, with a's sign. If b is 0, the result is NaN, or 0 for integers. d/db is -trunc(a / b).
ADJOINT_API Tensor fmod(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor fmod(const Tensor& a, const Scalar& b);
/// a - floor(a / b) b, with b's sign; otherwise like fmod, with d/db = -floor(a / b).
ADJOINT_API Tensor remainder(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor remainder(const Tensor& a, const Scalar& b);
/// remainder: the result has the divisor's sign, as in Python; C++'s % has the dividend's.
ADJOINT_API Tensor operator%(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator%(const Tensor& a, const Scalar& b);
/// base^exponent. An exponent of 0 gives 1 everywhere, including for NaN, and a zero gradient. Integers wrap around; an
/// integer base with a negative exponent throws Error.
ADJOINT_API Tensor pow(const Tensor& base, const Scalar& exponent);
/// base^exponent. The exponent's gradient is 0 where the base is 0 and the exponent is not negative. A negative power
/// of an integer is truncated towards 0.
ADJOINT_API Tensor pow(const Tensor& base, const Tensor& exponent);
ADJOINT_API Tensor pow(const Scalar& base, const Tensor& exponent);
/// NaN wins. If the operands are equal, each gets half of the gradient.
ADJOINT_API Tensor minimum(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor maximum(const Tensor& a, const Tensor& b);
/// min(max(x, low), high); NaN stays NaN. The gradient passes inside the bounds and on them.
ADJOINT_API Tensor clamp(const Tensor& x, const Scalar& low, const Scalar& high);
ADJOINT_API Tensor clamp_min(const Tensor& x, const Scalar& low);
ADJOINT_API Tensor clamp_max(const Tensor& x, const Scalar& high);
/// start + weight (end - start), exact for weights of 0 and 1.
ADJOINT_API Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
ADJOINT_API Tensor lerp(const Tensor& start, const Tensor& end, double weight);

// ---- Activations. Floating point only, but for relu, whose results of integers are integers.

/// max(x, 0), also +0 for -0. The gradient at 0 is 0.
ADJOINT_API Tensor relu(const Tensor& x);
/// x where x > 0, else negative_slope * x. The gradient at 0 is that of the negative side.
ADJOINT_API Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// x where x > 0, else weight * x; `weight` (C), one value for each element of x's axis 1, or (1). The gradient at 0 is
/// as in leaky_relu.
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
/// gelu for "none", gelu_tanh for "tanh". Throws Error for other names.
ADJOINT_API Tensor gelu(const Tensor& x, std::string_view approximate);
/// x / (1 + |x|). Infinity gives NaN with a gradient of 0, as in PyTorch.
ADJOINT_API Tensor softsign(const Tensor& x);
/// x tanh(softplus(x)) (Misra: "Mish", 2019).
ADJOINT_API Tensor mish(const Tensor& x);
/// hardsigmoid is min(max(x + 3, 0), 6) / 6, whose gradient at -3 and 3 is 0. hardswish is x times that, 0 for
/// -infinity, whose gradient is -1/2 at -3 and 3/2 at 3 (Howard et al.: "Searching for MobileNetV3", 2019).
ADJOINT_API Tensor hardsigmoid(const Tensor& x);
ADJOINT_API Tensor hardswish(const Tensor& x);
/// The first half of `axis` times the sigmoid of the second. Throws Error for an odd extent.
ADJOINT_API Tensor glu(const Tensor& x, std::int64_t axis = -1);
/// x + sin(a x)^2 / a; `a` (C), one value for each element of x's axis 1, or (1) (Ziyin, Hartwig, Ueda: "Neural
/// networks fail to learn periodic functions and how to fix it", 2020). NaN where a is 0.
ADJOINT_API Tensor snake(const Tensor& x, const Tensor& a);

// ---- Selection.

/// a where `condition` (bool) holds, else b. Any dtype for a and b; all three broadcast. `condition` has no gradient. A
/// scalar is a scalar operand as described above; two scalars give float32, or int64 if both are integers.
ADJOINT_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
ADJOINT_API Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b);
ADJOINT_API Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b);
ADJOINT_API Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b);
/// `value` where `mask` (bool) holds, else x.
ADJOINT_API Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

/// Replaces NaN and infinities by finite numbers; their gradient is zero. `posinf` and `neginf` default to the dtype's
/// largest and least finite numbers. Integers stay unchanged for all numbers. Throws Error if a floating-point dtype
/// cannot hold a given number.
ADJOINT_API Tensor nan_to_num(const Tensor& x, double nan = 0.0, std::optional<double> posinf = {},
                              std::optional<double> neginf = {});

// ---- Logic and tests. Any dtype; the result is bool and has no gradient. Any value but 0 is true, NaN too.

ADJOINT_API Tensor logical_and(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor logical_or(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor logical_xor(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor logical_not(const Tensor& x);
/// logical_and, logical_or and logical_not, element by element: both operands are evaluated.
ADJOINT_API Tensor operator&&(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator||(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator!(const Tensor& x);
/// The same for bool tensors, to combine masks: (x > 0) & ~padding. Throw Error for other dtypes, for which PyTorch's
/// operators work on the bits.
ADJOINT_API Tensor operator&(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator|(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator^(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator~(const Tensor& x);
ADJOINT_API Tensor isnan(const Tensor& x);
ADJOINT_API Tensor isinf(const Tensor& x);
ADJOINT_API Tensor isfinite(const Tensor& x);

}  // namespace adjoint

// The elementwise kernels by device, and the table of functors that each of their source files instantiates.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/ops/elementwise/activation_functors.h>
#include <adjoint/ops/elementwise/arithmetic_functors.h>
#include <adjoint/ops/elementwise/math_functors.h>
#include <adjoint/ops/elementwise/selection_functors.h>

#include <span>

namespace adjoint::cpu {
/// out[i] = F(in[0][i], ...). Operands have out's shape and any strides; out is contiguous, and may be an operand.
template <template <class> class F>
void map(std::span<const Tensor> in, Tensor& out, const typename F<float>::Attr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
template <template <class> class F>
void map(std::span<const Tensor> in, Tensor& out, const typename F<float>::Attr& attr);
}  // namespace adjoint::cuda

// One list per source file, so that they compile in parallel. The lists of differentiable functions of one operand are
// tables of functors and their functions.
// clang-format off
#define ADJOINT_ARITHMETIC_FUNCTORS(X) \
  X(Add) X(Sub) X(Mul) X(Div) X(DivGradDivisor) X(Neg) X(AddScaled) X(AddScalar) X(SubScalar) X(ScalarSub) X(MulScalar) X(DivScalar) \
  X(ScalarDiv) X(AddcMul) X(AddcDiv)
#define ADJOINT_UNARY_MATH_FUNCTIONS(X) \
  X(Exp, exp) X(Expm1, expm1) X(Log, log) X(Log1p, log1p) X(Log2, log2) X(Sqrt, sqrt) X(Rsqrt, rsqrt) \
  X(Reciprocal, reciprocal) X(Square, square) X(Sin, sin) X(Cos, cos) X(Tan, tan) X(Asin, asin) X(Acos, acos) \
  X(Atan, atan) X(Sinh, sinh) X(Cosh, cosh) X(Erf, erf) X(Abs, abs)
#define ADJOINT_STEP_FUNCTIONS(X) X(Sign, sign) X(Floor, floor) X(Ceil, ceil) X(Trunc, trunc) X(Round, round)
#define ADJOINT_MATH_FUNCTORS(X) X(PowScalar) X(Pow) X(Atan2) X(Fmod) X(Remainder) X(Lerp) X(MaximumGrad)
#define ADJOINT_PARAMETRIC_FUNCTORS(X) X(PReLU) X(PReLUGrad) X(PReLUGate) X(Snake) X(SnakeGradX) X(SnakeGradA) \
  X(GLU) X(GLUGradGate)
#define ADJOINT_SELECTION_FUNCTORS(X) \
  X(Equal) X(NotEqual) X(Less) X(LessEqual) X(EqualScalar) X(NotEqualScalar) X(LessScalar) X(LessEqualScalar) \
  X(GreaterScalar) X(GreaterEqualScalar) X(Minimum) X(Maximum) X(Where)
#define ADJOINT_LOGIC_FUNCTORS(X) \
  X(LogicalAnd) X(LogicalOr) X(LogicalXor) X(LogicalNot) X(IsNan) X(IsInf) X(IsFinite)
// clang-format on

#define ADJOINT_INSTANTIATE_MAP(F, ...) \
  template void map<functor::F>(std::span<const Tensor>, Tensor&, const functor::F<float>::Attr&);
/// Instantiates the function and its gradient.
#define ADJOINT_INSTANTIATE_UNARY(F, ...) \
  ADJOINT_INSTANTIATE_MAP(F)              \
  ADJOINT_INSTANTIATE_MAP(GradientOf<functor::F>::Functor)

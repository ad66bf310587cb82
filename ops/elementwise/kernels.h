// The elementwise kernels by device, and the lists of functors that each of their source files instantiates.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/core/tensor/unary_functions.h>
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

// One list per source file, so that they compile in parallel. Those of the functions of one operand are in
// core/tensor/unary_functions.h and activation.h.
// clang-format off
#define ADJOINT_ARITHMETIC_FUNCTORS(X) \
  X(Add) X(Sub) X(Mul) X(Div) X(DivGradDivisor) X(Neg) X(AddScaled) X(AddScalar) X(SubScalar) X(ScalarSub) X(MulScalar) X(DivScalar) \
  X(ScalarDiv) X(AddcMul) X(AddcDiv)
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

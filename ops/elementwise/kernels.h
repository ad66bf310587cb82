// The elementwise kernels by device, and the table of functors that each of their source files instantiates.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/elementwise/functors.h>
#include <adjoint/ops/elementwise/gradient_functors.h>
#include <adjoint/ops/elementwise/selection_functors.h>

#include <span>

namespace adjoint::cpu {
/// out[i] = F(in[0][i], ...): operands of out's shape and any strides; out is contiguous, and may be an operand.
template <template <class> class F>
void map(std::span<const Tensor> in, Tensor& out, const typename F<float>::Attr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
template <template <class> class F>
void map(std::span<const Tensor> in, Tensor& out, const typename F<float>::Attr& attr);
}  // namespace adjoint::cuda

// One list a source file, so that they compile side by side.
// clang-format off
#define ADJOINT_ARITHMETIC_FUNCTORS(X) \
  X(Add) X(Sub) X(Mul) X(Div) X(Neg) X(AddScaled) X(AddScalar) X(SubScalar) X(ScalarSub) X(MulScalar) X(DivScalar) \
  X(ScalarDiv) X(Abs) X(Sign) X(Square) X(Clamp) X(Relu)
#define ADJOINT_MATH_FUNCTORS(X) \
  X(Exp) X(Log) X(Sqrt) X(Sin) X(Cos) X(PowScalar) X(Pow) X(LeakyRelu) X(Prelu) X(Sigmoid) X(Tanh) X(Silu) \
  X(Softplus)
#define ADJOINT_GRADIENT_FUNCTORS(X) \
  X(AbsGrad) X(ReluGrad) X(LeakyReluGrad) X(ClampGrad) X(PreluGrad) X(PreluGate) X(MaximumGrad) X(SigmoidGrad) \
  X(TanhGrad) X(SiluGrad)
#define ADJOINT_SELECTION_FUNCTORS(X) \
  X(Equal) X(NotEqual) X(Less) X(LessEqual) X(EqualScalar) X(NotEqualScalar) X(LessScalar) X(LessEqualScalar) \
  X(GreaterScalar) X(GreaterEqualScalar) X(Minimum) X(Maximum) X(Where)
// clang-format on

#define ADJOINT_INSTANTIATE_MAP(F) \
  template void map<functor::F>(std::span<const Tensor>, Tensor&, const functor::F<float>::Attr&);

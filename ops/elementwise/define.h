// You are at stop 3 of 7 of the README's reading path, an elementwise operator: this makes operators of formulas.
// define.cpp comes next.
//
// Definitions of elementwise operators from functors, and the broadcasting of their operands. Internal to
// ops/elementwise.
#pragma once

#include <adjoint/core/autograd/op.h>
#include <adjoint/ops/elementwise/kernels.h>
#include <adjoint/ops/elementwise/onnx.h>
#include <adjoint/ops/elementwise/widened.h>

namespace adjoint::elementwise {

/// Throws Error, naming `op`, if the operands' dtypes differ or are not accepted; with `mask`, operand 0 must be bool.
void check_dtypes(const char* op, functor::Accepts accepts, bool mask, Operands in);

template <template <class> class F>
using AttrOf = typename F<float>::Attr;

template <template <class> class F>
TensorSpec infer(Operands in, const AttrOf<F>&) {
  using Traits = F<float>;
  check_dtypes(Traits::kName, Traits::kAccepts, Traits::kMask, in);
  return {in[0].shape(), Traits::kPredicate ? kBool : in[Traits::kMask ? 1 : 0].dtype()};
}

/// An operator that only gradients call, of functor F; `rules` are the gradients of its operands.
template <template <class> class F, class... Rules>
constexpr OpDef<AttrOf<F>> define_gradient(Rules... rules) {
  return {.name = F<float>::kName,
          .infer = infer<F>,
          .cpu = cpu::map<F>,
          .cuda = ADJOINT_IF_CUDA(cuda::map<F>),
          .strided = true,
          .formats = Formats::kElementwise,
          .mixed_precision = F<float>::kMixedPrecision,
          .floating = F<float>::kAccepts == functor::kFloating,
          .vjp = {Vjp<AttrOf<F>>(rules)...}};
}

template <template <class> class F>
OnnxValue to_onnx(OnnxCall& call, const AttrOf<F>& attr) {
  if constexpr (requires { F<float>::kNeutral; }) {
    if (attr.value == F<float>::kNeutral) return call.operand(0);
  }
  const OnnxOperands operands(call, F<float>::kOnnxTypes);
  return operands.cast_back(onnx_term<F>(operands.terms(), attr), F<float>::kPredicate);
}

/// The operator of functor F, which has a translation to ONNX; `rules` are the gradients of its operands.
template <template <class> class F, class... Rules>
constexpr OpDef<AttrOf<F>> define(Rules... rules) {
  OpDef<AttrOf<F>> op = define_gradient<F>(rules...);
  op.onnx = to_onnx<F>;
  return op;
}

/// A differentiable function of one operand, defined by its functor alone.
template <template <class> class F>
struct UnaryOp {
  using Attr = AttrOf<F>;

  static const OpDef<Attr> op;
  static const OpDef<Attr> gradient_op;  // (g, kept) -> g times the derivative, in one pass

  /// Recorded if a tape is live, and differentiable to any order.
  static Tensor gradient(const Tensor& g, const Tensor& kept, const Attr& attr) {
    if (F<float>::kPiecewiseLinear || Tape::current() == nullptr) return apply(gradient_op, {g, kept}, attr);
    if constexpr (!F<float>::kPiecewiseLinear) {
      return functor::make<F<double>>(attr).gradient(widened(g), widened(kept)).to(g.dtype());
    }
  }

 private:
  static constexpr bool kFromResult = F<float>::kKept == functor::Kept::kResult;

  static Tensor rule(const Ctx<Attr>& c) { return gradient(c.grad, kFromResult ? c.out : c.in[0], c.attr); }
  static Tensor linear_rule(const Ctx<Attr>& c) { return gradient(c.grad, c.in[1], c.attr); }
};
template <template <class> class F>
constinit const OpDef<AttrOf<F>> UnaryOp<F>::op = define<F>(Vjp<AttrOf<F>>{kFromResult ? kSaveOut : kSaveIn0, rule});
template <template <class> class F>
constinit const OpDef<AttrOf<F>> UnaryOp<F>::gradient_op = define_gradient<functor::GradientOf<F>::template Functor>(
    F<float>::kPiecewiseLinear ? Vjp<AttrOf<F>>{kSaveIn1, linear_rule} : Vjp<AttrOf<F>>{});

/// The gradient of an operator of two operands, by the functor (g, a, b): one pass, or in a recorded sweep the same
/// formula in operators.
template <template <class> class Gradient>
Tensor formula_gradient(const Ctx<NoAttr>& c) {
  static constinit const auto op = define_gradient<Gradient>();
  if (Tape::current() == nullptr) return apply(op, {c.grad, c.in[0], c.in[1]});
  return Gradient<double>{}(widened(c.grad), widened(c.in[0]), widened(c.in[1])).to(c.grad.dtype());
}

/// For an operator whose derivative is 0 almost everywhere.
template <class Attr>
Tensor zero_gradient(const Ctx<Attr>& c) {
  return Tensor::zeros(c.grad.shape(), c.grad.options());
}

template <class Attr>
Tensor unary(const OpDef<Attr>& op, const Tensor& x, const Attr& attr) {
  if (op.floating && x.defined() && !is_floating_point(x.dtype())) [[unlikely]] {
    const OpScope scope(op.name);
    return unary(op, x.to(kFloat32), attr);
  }
  return apply(op, Operands(&x, 1), attr);
}
inline Tensor unary(const OpDef<NoAttr>& op, const Tensor& x) { return unary(op, x, NoAttr{}); }
/// With a scalar operand, rounded to x's dtype, which must hold it; an integer x becomes float32 if the scalar is real.
/// Rules read the rounded scalar from the attributes.
Tensor with_scalar(const OpDef<ScalarAttr>& op, const Tensor& x, const Scalar& value);
/// A comparison with a scalar, exact: integers beside a real that their dtype cannot hold are compared in float64.
Tensor compare(const OpDef<ScalarAttr>& op, const Tensor& x, const Scalar& value);
/// `value` as a tensor of x's device that broadcasts, of the dtype that both promote to, which must hold it.
Tensor scalar_like(const char* op, const Scalar& value, const Tensor& x);
/// Operands become one dtype (core/tensor/promote.h), and broadcast by recording expand() of each that needs it.
Tensor binary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b);
/// `mask`: the first operand is a condition, which keeps its dtype.
Tensor ternary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b, const Tensor& c, bool mask = false);

/// `other` seen in `target`'s shape and dtype, and safe to read while target is written. Nothing is recorded.
Tensor update_operand(const Tensor& target, const Tensor& other);

}  // namespace adjoint::elementwise

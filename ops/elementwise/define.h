// How elementwise operators are defined from functors, and how their operands broadcast. Internal to ops/elementwise.
#pragma once

#include <adjoint/core/op.h>
#include <adjoint/ops/elementwise/kernels.h>
#include <adjoint/ops/elementwise/widened.h>

namespace adjoint::elementwise {

/// Throws Error, naming `op`, where the operands' dtypes differ or are not accepted; with `mask`, operand 0 must be
/// bool.
void check_dtypes(const char* op, functor::Accepts accepts, bool mask, Operands in);

template <template <class> class F>
using AttrOf = typename F<float>::Attr;

template <template <class> class F>
TensorSpec infer(Operands in, const AttrOf<F>&) {
  using Traits = F<float>;
  check_dtypes(Traits::kName, Traits::kAccepts, Traits::kMask, in);
  return {in[0].shape(), Traits::kPredicate ? kBool : in[Traits::kMask ? 1 : 0].dtype()};
}

/// The operator of functor F; `rules` are the gradients of its operands.
template <template <class> class F, class... Rules>
constexpr OpDef<AttrOf<F>> define(Rules... rules) {
  return {.name = F<float>::kName,
          .infer = infer<F>,
          .cpu = cpu::map<F>,
          .cuda = ADJOINT_IF_CUDA(cuda::map<F>),
          .strided = true,
          .mixed_precision = F<float>::kMixedPrecision,
          .vjp = {Vjp<AttrOf<F>>(rules)...}};
}

/// A differentiable function of one operand, made of its functor alone.
template <template <class> class F>
struct UnaryOp {
  using Attr = AttrOf<F>;

  static const OpDef<Attr> op;
  static const OpDef<Attr> gradient_op;  // (g, kept) -> g times the derivative, in one pass

  /// Recorded where a tape is live, and differentiable to any order.
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
constinit const OpDef<AttrOf<F>> UnaryOp<F>::gradient_op = define<functor::GradientOf<F>::template Functor>(
    F<float>::kPiecewiseLinear ? Vjp<AttrOf<F>>{kSaveIn1, linear_rule} : Vjp<AttrOf<F>>{});

/// For an operator whose derivative is 0 almost everywhere.
template <class Attr>
Tensor zero_gradient(const Ctx<Attr>& c) {
  return Tensor::zeros(c.grad.shape(), c.grad.options());
}

template <class Attr>
Tensor unary(const OpDef<Attr>& op, const Tensor& x, const Attr& attr) {
  return apply(op, Operands(&x, 1), attr);
}
inline Tensor unary(const OpDef<NoAttr>& op, const Tensor& x) { return apply(op, Operands(&x, 1), NoAttr{}); }
/// With a scalar operand, rounded to x's dtype, which must hold it. Rules take the scalar from the attributes, where it
/// is rounded already.
Tensor with_scalar(const OpDef<ScalarAttr>& op, const Tensor& x, double value);
/// `value`, rounded to x's dtype, which must hold it, as a tensor of x's device that broadcasts.
Tensor scalar_like(const char* op, double value, const Tensor& x);
/// Broadcasts by recording expand() of each operand that needs it.
Tensor binary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b);
Tensor ternary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b, const Tensor& c);

}  // namespace adjoint::elementwise

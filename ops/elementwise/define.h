// How elementwise operators are defined from functors, and how their operands broadcast. Internal to ops/elementwise.
#pragma once

#include <adjoint/core/op.h>
#include <adjoint/ops/elementwise/kernels.h>

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
          .vjp = {Vjp<AttrOf<F>>(rules)...}};
}

template <class Attr>
Tensor unary(const OpDef<Attr>& op, const Tensor& x, const Attr& attr) {
  return apply(op, Operands(&x, 1), attr);
}
inline Tensor unary(const OpDef<NoAttr>& op, const Tensor& x) { return apply(op, Operands(&x, 1), NoAttr{}); }
/// With a scalar operand, rounded to x's dtype, which must hold it. Rules take the scalar from the attributes, where it
/// is rounded already.
Tensor with_scalar(const OpDef<ScalarAttr>& op, const Tensor& x, double value);
/// Broadcasts by recording expand() of each operand that needs it.
Tensor binary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b);
Tensor ternary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b, const Tensor& c);

}  // namespace adjoint::elementwise

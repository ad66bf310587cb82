#include <adjoint/ops/elementwise/define.h>

#include <adjoint/core/check.h>
#include <adjoint/core/scalar.h>

namespace adjoint::elementwise {
namespace {

[[noreturn]] void mixed_dtypes(const char* op, const Tensor& a, const Tensor& b) {
  fail("{}: operands must share one dtype; got {} {} and {} {}; convert one with to()", op, a.dtype(), a.shape(),
       b.dtype(), b.shape());
}

}  // namespace

void check_dtypes(const char* op, functor::Accepts accepts, bool mask, Operands in) {
  const std::size_t first = mask ? 1 : 0;
  const DType dtype = in[first].dtype();
  if (mask && in[0].dtype() != kBool) [[unlikely]] {
    fail("{}: the condition must be bool; got {} {}; compare with 0", op, in[0].dtype(), in[0].shape());
  }
  for (std::size_t i = first + 1; i < in.size(); ++i) {
    if (in[i].dtype() != dtype) [[unlikely]]
      mixed_dtypes(op, in[first], in[i]);
  }
  if (accepts == functor::kFloating && !is_floating_point(dtype)) [[unlikely]] {
    fail("{}: the dtype must be floating point; got {} {}; convert with to(kFloat32)", op, dtype, in[first].shape());
  }
  if (accepts == functor::kNumbers && dtype == kBool) [[unlikely]] {
    fail("{}: the dtype must be a number's; got bool {}; convert with to()", op, in[first].shape());
  }
}

Tensor with_scalar(const OpDef<ScalarAttr>& op, const Tensor& x, double value) {
  check_defined(op.name, "the tensor", x);
  // The scalar is rounded to the dtype that is computed in.
  if (const detail::AutocastCall cast(op.mixed_precision, Operands(&x, 1)); cast) {
    return with_scalar(op, cast[0], value);
  }
  const Operands operands(&x, 1);
  op.infer.one(operands,
               {value});  // a dtype that the operator does not take comes before a scalar that the dtype does not
  return apply(op, operands, ScalarAttr{fit_scalar(op.name, value, x.dtype(), x.shape())});
}

Tensor scalar_like(const char* op, double value, const Tensor& x) {
  check_defined(op, "the tensor", x);
  return Tensor::full(Shape{}, fit_scalar(op, value, x.dtype(), x.shape()), x.options());
}

Tensor binary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b) {
  check_defined(op.name, "the first operand", a);
  check_defined(op.name, "the second operand", b);
  if (a.shape() == b.shape()) return apply(op, {a, b});
  if (const detail::AutocastCall cast(op.mixed_precision, {a, b}); cast) return binary(op, cast[0], cast[1]);
  if (a.dtype() != b.dtype()) [[unlikely]]
    mixed_dtypes(op.name, a, b);
  const OpScope scope(op.name);
  const Shape shape = broadcast_shapes(op.name, a.shape(), b.shape());
  return apply(op, {a.expand(shape), b.expand(shape)});
}

Tensor ternary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b, const Tensor& c) {
  check_defined(op.name, "the first operand", a);
  check_defined(op.name, "the second operand", b);
  check_defined(op.name, "the third operand", c);
  const OpScope scope(op.name);
  if (const detail::AutocastCall cast(op.mixed_precision, {a, b, c}); cast) {
    return ternary(op, cast[0], cast[1], cast[2]);
  }
  const Shape shape = broadcast_shapes(op.name, broadcast_shapes(op.name, a.shape(), b.shape()), c.shape());
  return apply(op, {a.expand(shape), b.expand(shape), c.expand(shape)});
}

}  // namespace adjoint::elementwise

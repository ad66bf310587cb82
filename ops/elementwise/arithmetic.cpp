// +, -, *, /, unary minus, and the in-place updates add_ and mul_.
#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/scalar.h>
#include <adjoint/ops/elementwise/define.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>

namespace adjoint {
namespace {

using namespace functor;
using elementwise::binary;
using elementwise::define;
using elementwise::unary;
using elementwise::with_scalar;

using Context = Ctx<NoAttr>;
using ScalarContext = Ctx<ScalarAttr>;
using Rule = Vjp<NoAttr>;
using ScalarRule = Vjp<ScalarAttr>;

template <class Attr>
Tensor pass(const Ctx<Attr>& c) {
  return c.grad;
}
template <class Attr>
Tensor negate(const Ctx<Attr>& c) {
  return -c.grad;
}

constinit const auto add_op = define<Add>(Rule{kSaveNone, pass}, Rule{kSaveNone, pass});
constinit const auto sub_op = define<Sub>(Rule{kSaveNone, pass}, Rule{kSaveNone, negate});
constinit const auto mul_op = define<Mul>(Rule{kSaveIn1, [](const Context& c) { return c.grad * c.in[1]; }},
                                          Rule{kSaveIn0, [](const Context& c) { return c.grad * c.in[0]; }});
Tensor divisor_gradient(const Context& c) { return -(c.grad * c.out / c.in[1]); }
constinit const auto div_op = define<Div>(Rule{kSaveIn1, [](const Context& c) { return c.grad / c.in[1]; }},
                                          Rule{kSaveIn1 | kSaveOut, rounded_once<divisor_gradient, NoAttr>});
constinit const auto neg_op = define<Neg>(Rule{kSaveNone, negate});

constinit const auto add_scalar_op = define<AddScalar>(ScalarRule{kSaveNone, pass});
constinit const auto sub_scalar_op = define<SubScalar>(ScalarRule{kSaveNone, pass});
constinit const auto scalar_sub_op = define<ScalarSub>(ScalarRule{kSaveNone, negate});
constinit const auto mul_scalar_op =
    define<MulScalar>(ScalarRule{kSaveNone, [](const ScalarContext& c) { return c.grad * c.attr.value; }});
constinit const auto div_scalar_op =
    define<DivScalar>(ScalarRule{kSaveNone, [](const ScalarContext& c) { return c.grad / c.attr.value; }});
Tensor reciprocal_gradient(const ScalarContext& c) { return -(c.grad * c.out / c.in[0]); }
constinit const auto scalar_div_op =
    define<ScalarDiv>(ScalarRule{kSaveIn0 | kSaveOut, rounded_once<reciprocal_gradient, ScalarAttr>});

constinit const auto add_scaled_op = define<AddScaled>();

// `other` seen in `target`'s shape and safe to read while target is written. Nothing here is recorded.
Tensor update_operand(const Tensor& target, const Tensor& other) {
  check_defined(OpScope::op(), "the operand", other);
  if (other.shape() == target.shape() && other.impl()->storage != target.impl()->storage) return other;
  const PauseTape pause;
  Tensor operand = other;
  if (other.shape() != target.shape()) {
    ADJOINT_CHECK(broadcast_shapes(OpScope::op(), target.shape(), other.shape()) == target.shape(),
                  "{}: the operand must broadcast to the tensor's shape; got operand {}, tensor {}", OpScope::op(),
                  other.shape(), target.shape());
    operand = other.expand(target.shape());
  }
  const bool shared = operand.impl()->storage == target.impl()->storage;
  const bool same = operand.storage_offset() == target.storage_offset() && operand.strides() == target.strides();
  return shared && !same ? operand.clone() : operand;
}

// target = op(operands) with a scalar of `dtype`.
void update(const OpDef<ScalarAttr>& op, Tensor& target, Operands operands, double scalar, DType dtype) {
  op.infer.one(operands, {scalar});  // a dtype that the operator does not take comes before a scalar
  apply_into(op, target, operands, {fit_scalar(op.name, scalar, dtype, target.shape())});
}
Tensor& update(const char* name, const OpDef<ScalarAttr>& op, Tensor& target, double scalar) {
  const OpScope scope(name);
  check_writable(name, target);
  update(op, target, Operands(&target, 1), scalar, target.dtype());
  return target;
}
Tensor& update(const char* name, const OpDef<NoAttr>& op, Tensor& target, const Tensor& other) {
  const OpScope scope(name);
  check_writable(name, target);
  const Tensor operands[] = {target, update_operand(target, other)};
  apply_into(op, target, operands, NoAttr{});
  return target;
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) { return binary(add_op, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return binary(sub_op, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary(mul_op, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return binary(div_op, a, b); }
Tensor operator+(const Tensor& a, double b) { return with_scalar(add_scalar_op, a, b); }
Tensor operator-(const Tensor& a, double b) { return with_scalar(sub_scalar_op, a, b); }
Tensor operator*(const Tensor& a, double b) { return with_scalar(mul_scalar_op, a, b); }
Tensor operator/(const Tensor& a, double b) { return with_scalar(div_scalar_op, a, b); }
Tensor operator+(double a, const Tensor& b) { return with_scalar(add_scalar_op, b, a); }
Tensor operator-(double a, const Tensor& b) { return with_scalar(scalar_sub_op, b, a); }
Tensor operator*(double a, const Tensor& b) { return with_scalar(mul_scalar_op, b, a); }
Tensor operator/(double a, const Tensor& b) { return with_scalar(scalar_div_op, b, a); }
Tensor operator-(const Tensor& a) { return unary(neg_op, a); }
Tensor neg(const Tensor& x) { return -x; }

Tensor& Tensor::add_(const Tensor& other, double scale) {
  const OpScope scope("add_");
  check_writable("add_", *this);
  const Tensor operands[] = {*this, update_operand(*this, other)};
  // No operand but a coefficient: it stays in the type that is computed in, as PyTorch's alpha does.
  const DType computed = element_size(dtype()) == 2 ? kFloat32 : dtype();
  update(add_scaled_op, *this, operands, scale, computed);
  return *this;
}

Tensor& Tensor::mul_(const Tensor& factor) { return update("mul_", mul_op, *this, factor); }
Tensor& Tensor::div_(const Tensor& divisor) { return update("div_", div_op, *this, divisor); }
Tensor& Tensor::add_(double term) { return update("add_", add_scalar_op, *this, term); }
Tensor& Tensor::sub_(double term) { return update("sub_", sub_scalar_op, *this, term); }
Tensor& Tensor::mul_(double factor) { return update("mul_", mul_scalar_op, *this, factor); }
Tensor& Tensor::div_(double divisor) { return update("div_", div_scalar_op, *this, divisor); }

}  // namespace adjoint

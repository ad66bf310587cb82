// You are at stop 3 of 7 of the README's reading path, an elementwise operator: these are the functions and their
// gradients. core/tensor/strided.h comes next.
//
// +, -, *, /, unary minus, and the in-place updates add_ and mul_.
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/ops/elementwise/define.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>

#include <array>

namespace adjoint {

Tensor elementwise::update_operand(const Tensor& target, const Tensor& other) {
  check_defined(OpScope::op(), "the operand", other);
  if (other.dtype() != target.dtype()) [[unlikely]] {
    ADJOINT_CHECK(!is_floating_point(other.dtype()) && target.dtype() != kBool,
                  "{}: the tensor's dtype must hold the operand's; got operand {} {}, tensor {} {}; convert one with "
                  "to()",
                  OpScope::op(), other.dtype(), other.shape(), target.dtype(), target.shape());
    const PauseTape pause;
    return update_operand(target, other.to(target.dtype()));
  }
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

namespace {

using namespace functor;
using elementwise::binary;
using elementwise::define;
using elementwise::formula_gradient;
using elementwise::unary;
using elementwise::update_operand;
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
constinit const auto div_op = define<Div>(Rule{kSaveIn1, [](const Context& c) { return c.grad / c.in[1]; }},
                                          Rule{kSaveIn0 | kSaveIn1, formula_gradient<DivGradDivisor>});
constinit const auto neg_op = define<Neg>(Rule{kSaveNone, negate});

constinit const auto add_scalar_op = define<AddScalar>(ScalarRule{kSaveNone, pass});
constinit const auto sub_scalar_op = define<SubScalar>(ScalarRule{kSaveNone, pass});
constinit const auto scalar_sub_op = define<ScalarSub>(ScalarRule{kSaveNone, negate});
constinit const auto mul_scalar_op =
    define<MulScalar>(ScalarRule{kSaveNone, [](const ScalarContext& c) { return c.grad * c.attr.value; }});
constinit const auto div_scalar_op =
    define<DivScalar>(ScalarRule{kSaveNone, [](const ScalarContext& c) { return c.grad / c.attr.value; }});
Tensor reciprocal_gradient(const ScalarContext& c) { return -(c.grad * (c.attr.value / c.in[0]) / c.in[0]); }
constinit const auto scalar_div_op =
    define<ScalarDiv>(ScalarRule{kSaveIn0, rounded_once<reciprocal_gradient, ScalarAttr>});

constinit const auto add_scaled_op = define<AddScaled>();
constinit const auto addcmul_op = define<AddcMul>();
constinit const auto addcdiv_op = define<AddcDiv>();

// target = op(operands) with a scalar of `dtype`.
void update(const OpDef<ScalarAttr>& op, Tensor& target, Operands operands, double scalar, DType dtype) {
  op.infer.one(operands, {scalar});  // checks the dtype before the scalar
  apply_into(op, target, operands, {fit_scalar(op.name, scalar, dtype, target.shape())});
}
Tensor& update(const char* name, const OpDef<ScalarAttr>& op, Tensor& target, double scalar) {
  const OpScope scope(name);
  check_writable(name, target);
  update(op, target, Operands(&target, 1), scalar, target.dtype());
  return target;
}
// A coefficient is not an operand: it keeps the type of the computation, like PyTorch's alpha and value.
DType computed_in(const Tensor& target) { return element_size(target.dtype()) == 2 ? kFloat32 : target.dtype(); }
Tensor& update(const char* name, const OpDef<ScalarAttr>& op, Tensor& target, const Tensor& a, const Tensor& b,
               double scale) {
  const OpScope scope(name);
  check_writable(name, target, std::array{a, b});
  const Tensor operands[] = {target, update_operand(target, a), update_operand(target, b)};
  update(op, target, operands, scale, computed_in(target));
  return target;
}
Tensor& update(const char* name, const OpDef<NoAttr>& op, Tensor& target, const Tensor& other) {
  const OpScope scope(name);
  check_writable(name, target, {&other, 1});
  const Tensor operands[] = {target, update_operand(target, other)};
  apply_into(op, target, operands, NoAttr{});
  return target;
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) { return binary(add_op, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return binary(sub_op, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary(mul_op, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return binary(div_op, a, b); }
Tensor operator+(const Tensor& a, const Scalar& b) { return with_scalar(add_scalar_op, a, b); }
Tensor operator-(const Tensor& a, const Scalar& b) { return with_scalar(sub_scalar_op, a, b); }
Tensor operator*(const Tensor& a, const Scalar& b) { return with_scalar(mul_scalar_op, a, b); }
Tensor operator/(const Tensor& a, const Scalar& b) { return with_scalar(div_scalar_op, a, b); }
Tensor operator+(const Scalar& a, const Tensor& b) { return with_scalar(add_scalar_op, b, a); }
Tensor operator-(const Scalar& a, const Tensor& b) { return with_scalar(scalar_sub_op, b, a); }
Tensor operator*(const Scalar& a, const Tensor& b) { return with_scalar(mul_scalar_op, b, a); }
Tensor operator/(const Scalar& a, const Tensor& b) { return with_scalar(scalar_div_op, b, a); }
Tensor operator-(const Tensor& a) { return unary(neg_op, a); }
Tensor neg(const Tensor& x) { return -x; }

Tensor& Tensor::add_(const Tensor& other, double scale) {
  const OpScope scope("add_");
  check_writable("add_", *this, {&other, 1});
  const Tensor operands[] = {*this, update_operand(*this, other)};
  update(add_scaled_op, *this, operands, scale, computed_in(*this));
  return *this;
}

Tensor& Tensor::sub_(const Tensor& other, double scale) {
  const OpScope scope("sub_");
  return scale == 1.0 ? update("sub_", sub_op, *this, other) : add_(other, -scale);
}

Tensor& Tensor::mul_(const Tensor& factor) { return update("mul_", mul_op, *this, factor); }
Tensor& Tensor::div_(const Tensor& divisor) { return update("div_", div_op, *this, divisor); }
Tensor& Tensor::add_(double term) { return update("add_", add_scalar_op, *this, term); }
Tensor& Tensor::sub_(double term) { return update("sub_", sub_scalar_op, *this, term); }
Tensor& Tensor::mul_(double factor) { return update("mul_", mul_scalar_op, *this, factor); }
Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, double scale) {
  return update("addcmul_", addcmul_op, *this, a, b, scale);
}
Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, double scale) {
  return update("addcdiv_", addcdiv_op, *this, a, b, scale);
}
Tensor& Tensor::div_(double divisor) { return update("div_", div_scalar_op, *this, divisor); }

}  // namespace adjoint

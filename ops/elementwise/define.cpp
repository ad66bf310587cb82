// You are at stop 3 of 7 of the README's reading path, an elementwise operator: this broadcasts operands.
// arithmetic.cpp comes next.
#include <adjoint/ops/elementwise/define.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/promote.h>

#include <array>
#include <optional>
#include <span>
#include <string>

namespace adjoint::elementwise {
namespace {

// `where` names operand b, if there are more than two.
[[noreturn]] void mixed_dtypes(const char* op, const Tensor& a, const Tensor& b, const std::string& where = {}) {
  fail("{}: operands must share one dtype; got {} {} and {} {}{}; convert one with to()", op, a.dtype(), a.shape(),
       b.dtype(), b.shape(), where);
}

// Casts the operands to the dtype that they promote to. Returns false if they already have it, and if two
// floating-point dtypes meet, which autocast or check_dtypes() handles.
bool unify(const char* op, bool floating, std::span<Tensor> operands) {
  std::optional<DType> common = promote(operands);
  if (!common.has_value()) return false;
  if (floating && !is_floating_point(*common)) common = kFloat32;
  bool cast = false;
  const OpScope scope(op);
  for (Tensor& operand : operands) {
    if (operand.dtype() == *common) continue;
    operand = operand.to(*common);
    cast = true;
  }
  return cast;
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
      mixed_dtypes(op, in[first], in[i], in.size() > 2 ? fmt::format(" as operand {}", i) : "");
  }
  if (accepts == functor::kFloating && !is_floating_point(dtype)) [[unlikely]] {
    fail("{}: the dtype must be floating point; got {} {}; convert with to(kFloat32)", op, dtype, in[first].shape());
  }
  if (accepts == functor::kNumbers && dtype == kBool) [[unlikely]] {
    fail("{}: the dtype must be numeric; got bool {}; convert with to()", op, in[first].shape());
  }
}

Tensor with_scalar(const OpDef<ScalarAttr>& op, const Tensor& x, const Scalar& value) {
  check_defined(op.name, "the tensor", x);
  DType common = promote(x.dtype(), value);
  if (op.floating && !is_floating_point(common)) common = kFloat32;
  if (common != x.dtype()) [[unlikely]] {
    const OpScope scope(op.name);
    return with_scalar(op, x.to(common), value);
  }
  // The scalar is rounded to the dtype of the computation.
  if (const detail::AutocastCall cast(op.mixed_precision, Operands(&x, 1)); cast) {
    return with_scalar(op, cast[0], value);
  }
  const Operands operands(&x, 1);
  op.infer.one(operands, {0.0});  // checks the dtype before the scalar
  return apply(op, operands, ScalarAttr{fit_scalar(op.name, value, x.dtype(), x.shape())});
}

Tensor compare(const OpDef<ScalarAttr>& op, const Tensor& x, const Scalar& value) {
  check_defined(op.name, "the tensor", x);
  if (is_floating_point(x.dtype())) return with_scalar(op, x, value);
  const bool held = visit(x.dtype(), [&]<class T>() {
    return value.is_floating_point() ? holds<T>(static_cast<double>(value)) : holds<T>(value.to<std::int64_t>());
  });
  const OpScope scope(op.name);
  if (!held) return with_scalar(op, x.to(value.is_floating_point() ? kFloat64 : kInt64), value);
  if (x.dtype() == kBool) return with_scalar(op, x, value.to<bool>());
  return with_scalar(op, x, value.to<std::int64_t>());
}

Tensor scalar_like(const char* op, const Scalar& value, const Tensor& x) {
  check_defined(op, "the tensor", x);
  const OpScope scope(op);
  const DType dtype = promote(x.dtype(), value);
  fit_scalar(op, value, dtype, x.shape());
  return Tensor::full(Shape{}, value, {.dtype = dtype, .device = x.device()});
}

Tensor binary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b) {
  check_defined(op.name, "the first operand", a);
  check_defined(op.name, "the second operand", b);
  if (a.dtype() != b.dtype() || (op.floating && !is_floating_point(a.dtype()))) [[unlikely]] {
    std::array<Tensor, 2> same = {a, b};
    if (unify(op.name, op.floating, same)) return binary(op, same[0], same[1]);
  }
  if (a.shape() == b.shape()) return apply(op, {a, b});
  if (const detail::AutocastCall cast(op.mixed_precision, {a, b}); cast) return binary(op, cast[0], cast[1]);
  if (a.dtype() != b.dtype()) [[unlikely]]
    mixed_dtypes(op.name, a, b);
  const OpScope scope(op.name);
  const Shape shape = broadcast_shapes(op.name, a.shape(), b.shape());
  return apply(op, {a.expand(shape), b.expand(shape)});
}

Tensor ternary(const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b, const Tensor& c, bool mask) {
  check_defined(op.name, "the first operand", a);
  check_defined(op.name, "the second operand", b);
  check_defined(op.name, "the third operand", c);
  const OpScope scope(op.name);
  std::array<Tensor, 3> same = {a, b, c};
  if (unify(op.name, op.floating, std::span(same).subspan(mask ? 1 : 0))) {
    return ternary(op, same[0], same[1], same[2], mask);
  }
  if (const detail::AutocastCall cast(op.mixed_precision, {a, b, c}); cast) {
    return ternary(op, cast[0], cast[1], cast[2], mask);
  }
  const Shape shape = broadcast_shapes(op.name, broadcast_shapes(op.name, a.shape(), b.shape()), c.shape());
  return apply(op, {a.expand(shape), b.expand(shape), c.expand(shape)});
}

}  // namespace adjoint::elementwise

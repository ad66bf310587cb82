// Comparisons, logic, tests, and where.
#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/ops/elementwise/define.h>
#include <adjoint/ops/elementwise/elementwise.h>

namespace adjoint {
namespace {

using namespace functor;
using elementwise::binary;
using elementwise::compare;
using elementwise::define;
using elementwise::scalar_like;
using elementwise::ternary;
using elementwise::unary;

using Context = Ctx<NoAttr>;
using Rule = Vjp<NoAttr>;

double largest_finite(DType dtype) {
  switch (dtype) {
    case kFloat16: return 65504.0;
    case kBFloat16: return 0x1.fep127;
    case kFloat32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

constinit const auto eq_op = define<Equal>();
constinit const auto ne_op = define<NotEqual>();
constinit const auto lt_op = define<Less>();
constinit const auto le_op = define<LessEqual>();
constinit const auto eq_scalar_op = define<EqualScalar>();
constinit const auto ne_scalar_op = define<NotEqualScalar>();
constinit const auto lt_scalar_op = define<LessScalar>();
constinit const auto le_scalar_op = define<LessEqualScalar>();
constinit const auto gt_scalar_op = define<GreaterScalar>();
constinit const auto ge_scalar_op = define<GreaterEqualScalar>();

constinit const auto logical_and_op = define<LogicalAnd>();
constinit const auto logical_or_op = define<LogicalOr>();
constinit const auto logical_xor_op = define<LogicalXor>();
constinit const auto logical_not_op = define<LogicalNot>();
constinit const auto isnan_op = define<IsNan>();
constinit const auto isinf_op = define<IsInf>();
constinit const auto isfinite_op = define<IsFinite>();

constinit const auto where_op =
    define<Where>(Rule{}, Rule{kSaveIn0, [](const Context& c) { return where(c.in[0], c.grad, 0.0); }},
                  Rule{kSaveIn0, [](const Context& c) { return where(c.in[0], 0.0, c.grad); }});

// op(b, a), under its own name.
Tensor swapped(const char* name, const OpDef<NoAttr>& op, const Tensor& a, const Tensor& b) {
  check_defined(name, "the first operand", a);
  check_defined(name, "the second operand", b);
  const OpScope scope(name);
  return binary(op, b, a);
}

}  // namespace

Tensor operator==(const Tensor& a, const Tensor& b) { return binary(eq_op, a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return binary(ne_op, a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return binary(lt_op, a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return binary(le_op, a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return swapped("gt", lt_op, a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return swapped("ge", le_op, a, b); }
Tensor operator==(const Tensor& a, const Scalar& b) { return compare(eq_scalar_op, a, b); }
Tensor operator!=(const Tensor& a, const Scalar& b) { return compare(ne_scalar_op, a, b); }
Tensor operator<(const Tensor& a, const Scalar& b) { return compare(lt_scalar_op, a, b); }
Tensor operator<=(const Tensor& a, const Scalar& b) { return compare(le_scalar_op, a, b); }
Tensor operator>(const Tensor& a, const Scalar& b) { return compare(gt_scalar_op, a, b); }
Tensor operator>=(const Tensor& a, const Scalar& b) { return compare(ge_scalar_op, a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return binary(logical_and_op, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return binary(logical_or_op, a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return binary(logical_xor_op, a, b); }
Tensor logical_not(const Tensor& x) { return unary(logical_not_op, x); }
Tensor operator&&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
Tensor operator||(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
Tensor operator!(const Tensor& x) { return logical_not(x); }

namespace {
const Tensor& mask(const char* op, const Tensor& x) {
  check_defined(op, "an operand", x);
  ADJOINT_CHECK(x.dtype() == kBool, "{}: a mask must be bool; got {}; compare, or call logical_and, _or, _xor or _not",
                op, x.dtype());
  return x;
}
}  // namespace
Tensor operator&(const Tensor& a, const Tensor& b) { return logical_and(mask("&", a), mask("&", b)); }
Tensor operator|(const Tensor& a, const Tensor& b) { return logical_or(mask("|", a), mask("|", b)); }
Tensor operator^(const Tensor& a, const Tensor& b) { return logical_xor(mask("^", a), mask("^", b)); }
Tensor operator~(const Tensor& x) { return logical_not(mask("~", x)); }
Tensor isnan(const Tensor& x) { return unary(isnan_op, x); }
Tensor isinf(const Tensor& x) { return unary(isinf_op, x); }
Tensor isfinite(const Tensor& x) { return unary(isfinite_op, x); }

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return ternary(where_op, condition, a, b, true);
}
Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b) {
  return where(condition, a, scalar_like("where", b, a));
}
Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b) {
  return where(condition, scalar_like("where", a, b), b);
}
Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b) {
  check_defined("where", "the condition", condition);
  const OpScope scope("where");
  const TensorOptions options{.dtype = promote(a.dtype(), b), .device = condition.device()};
  return where(condition, Tensor::full(Shape{}, a, options), Tensor::full(Shape{}, b, options));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  const OpScope scope("masked_fill");
  check_defined("masked_fill", "x", x);
  check_defined("masked_fill", "mask", mask);
  return where(mask, Tensor::full(Shape{}, fit_scalar("masked_fill", value, x.dtype(), x.shape()), x.options()), x);
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  const OpScope scope("nan_to_num");
  check_defined("nan_to_num", "x", x);
  if (!is_floating_point(x.dtype())) return x.clone();
  const double largest = largest_finite(x.dtype());
  const auto fit = [&](double value) { return fit_scalar("nan_to_num", value, x.dtype(), x.shape()); };
  return unary(elementwise::UnaryOp<NanToNum>::op, x,
               NumbersAttr{fit(nan), fit(posinf.value_or(largest)), fit(neginf.value_or(-largest))});
}

}  // namespace adjoint

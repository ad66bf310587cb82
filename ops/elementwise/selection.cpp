// Comparisons and where.
#include <adjoint/core/op_scope.h>
#include <adjoint/ops/elementwise/define.h>
#include <adjoint/ops/elementwise/elementwise.h>

namespace adjoint {
namespace {

using namespace functor;
using elementwise::binary;
using elementwise::define;
using elementwise::ternary;
using elementwise::with_scalar;

using Context = Ctx<NoAttr>;
using Rule = Vjp<NoAttr>;

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

Tensor zero_like(const Tensor& tensor) { return Tensor::zeros(Shape{}, tensor.options()); }

constinit const auto where_op =
    define<Where>(Rule{}, Rule{kSaveIn0, [](const Context& c) { return where(c.in[0], c.grad, zero_like(c.grad)); }},
                  Rule{kSaveIn0, [](const Context& c) { return where(c.in[0], zero_like(c.grad), c.grad); }});

// op(b, a), under a name of its own.
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
Tensor operator==(const Tensor& a, double b) { return with_scalar(eq_scalar_op, a, b); }
Tensor operator!=(const Tensor& a, double b) { return with_scalar(ne_scalar_op, a, b); }
Tensor operator<(const Tensor& a, double b) { return with_scalar(lt_scalar_op, a, b); }
Tensor operator<=(const Tensor& a, double b) { return with_scalar(le_scalar_op, a, b); }
Tensor operator>(const Tensor& a, double b) { return with_scalar(gt_scalar_op, a, b); }
Tensor operator>=(const Tensor& a, double b) { return with_scalar(ge_scalar_op, a, b); }

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) { return ternary(where_op, condition, a, b); }

}  // namespace adjoint

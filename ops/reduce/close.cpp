#include <adjoint/ops/reduce/close.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/reduce/reduce.h>

namespace adjoint {

Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  const OpScope scope("isclose");
  check_defined("isclose", "a", a);
  check_defined("isclose", "b", b);
  const auto& [rtol, atol, equal_nan] = options;
  ADJOINT_CHECK(rtol >= 0.0 && atol >= 0.0, "isclose: tolerances must not be negative; got rtol {}, atol {}", rtol,
                atol);
  const Tensor x = a.detach(), y = b.detach();
  Tensor close = x == y;
  const bool floating = is_floating_point(x.dtype()) || is_floating_point(y.dtype());
  const auto comparable = [&](const Tensor& t) { return floating ? widened(t) : t.to(kFloat64); };
  const Tensor of = comparable(x), beside = comparable(y), error = abs(of - beside);
  // Equal infinities are close, by the first comparison, although their distance is not finite.
  close = logical_or(close, logical_and(isfinite(error), error <= abs(beside) * rtol + atol));
  if (equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(y)));
  return close;
}

bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  const OpScope scope("allclose");
  return all(isclose(a, b, options)).item<bool>();
}

bool equal(const Tensor& a, const Tensor& b) {
  const OpScope scope("equal");
  check_defined("equal", "a", a);
  check_defined("equal", "b", b);
  return a.shape() == b.shape() && all(a.detach() == b.detach()).item<bool>();
}

}  // namespace adjoint

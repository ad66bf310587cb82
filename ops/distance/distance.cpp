// Distances, in other operators.
#include <adjoint/ops/distance/distance.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/reduce/reduce.h>

#include <cmath>

namespace adjoint {
namespace {

void check_power(const char* op, double p) { ADJOINT_CHECK(p >= 0.0, "{}: p must not be negative; got {}", op, p); }

void check_operand(const char* op, const char* name, const Tensor& x) {
  check_defined(op, name, x);
  ADJOINT_CHECK(is_floating_point(x.dtype()), "{}: {} must be floating point; got {} {}; convert with to()", op, name,
                x.dtype(), x.shape());
}

void check_operands_of_distance(const char* op, const Tensor& a, const Tensor& b) {
  check_operand(op, "a", a);
  check_operand(op, "b", b);
  ADJOINT_CHECK(a.dtype() == b.dtype(), "{}: a and b must have one dtype; got a {} {}, b {} {}; convert one with to()",
                op, a.dtype(), a.shape(), b.dtype(), b.shape());
}

// norm() over no elements, for which norm() refuses an infinite p.
Tensor length(const Tensor& x, double p, std::int64_t axis, bool keepdim) {
  return norm(x, x.size(axis) == 0 ? 2.0 : p, axis, keepdim);
}

}  // namespace

Tensor normalize(const Tensor& x, double p, std::int64_t axis, double eps) {
  constexpr const char* kOp = "normalize";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) return normalize(full[0], p, axis, eps);
  check_operand(kOp, "x", x);
  check_power(kOp, p);
  const auto at = static_cast<std::int64_t>(resolve_axis(kOp, axis, x.shape().size()));
  const Tensor wide = widened(x);
  return (wide / clamp_min(length(wide, p, at, true), eps)).to(x.dtype());
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis, double eps) {
  constexpr const char* kOp = "cosine_similarity";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {a, b}); full) {
    return cosine_similarity(full[0], full[1], axis, eps);
  }
  check_operands_of_distance(kOp, a, b);
  const Shape shape = broadcast_shapes(kOp, a.shape(), b.shape());
  const auto at = static_cast<std::int64_t>(resolve_axis(kOp, axis, shape.size()));
  const auto unit = [&](const Tensor& operand) {
    const Tensor wide = widened(operand.expand(shape));
    return wide / clamp_min(norm(wide, 2.0, at, true), eps);
  };
  return (unit(a) * unit(b)).sum(at).to(a.dtype());
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim) {
  constexpr const char* kOp = "pairwise_distance";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {a, b}); full) {
    return pairwise_distance(full[0], full[1], p, eps, keepdim);
  }
  check_operands_of_distance(kOp, a, b);
  check_power(kOp, p);
  const Shape shape = broadcast_shapes(kOp, a.shape(), b.shape());
  ADJOINT_CHECK(!shape.empty(), "{}: a or b must have an axis; got {} and {}", kOp, a.shape(), b.shape());
  return length(widened(a) - widened(b) + eps, p, -1, keepdim).to(a.dtype());
}

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  constexpr const char* kOp = "cdist";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {a, b}); full) return cdist(full[0], full[1], p);
  check_operands_of_distance(kOp, a, b);
  check_power(kOp, p);
  ADJOINT_CHECK(a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1),
                "{}: a and b must be (..., P, D) and (..., R, D); got {} and {}", kOp, a.shape(), b.shape());
  return length(widened(a).unsqueeze(-2) - widened(b).unsqueeze(-3), p, -1, false).to(a.dtype());
}

}  // namespace adjoint

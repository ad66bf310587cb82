// ONNX's products of matrices.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/matmul/einsum.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>

namespace adjoint::nn::detail {
namespace {

OnnxResults matrix_product(const OnnxArgs& x) {
  if (x[0].is_floating_point()) return {matmul(x[0], x[1])};
  return {einsum("...ij,...jk->...ik", {x[0], x[1]})};
}

OnnxResults general_product(const OnnxArgs& x) {
  if (x[0].dim() != 2 || x[1].dim() != 2)
    x.refuse(fmt::format("its factors must be matrices; got {} and {}", x[0].shape(), x[1].shape()));
  const bool transposed = x.integer("transB", 0) != 0;
  const Tensor a = x.integer("transA", 0) != 0 ? x[0].t() : x[0], b = transposed ? x[1].t() : x[1];
  const double alpha = x.number("alpha", 1.0), beta = x.number("beta", 1.0);
  if (!x.has(2)) return {alpha == 1.0 ? matmul(a, b) : matmul(a, b) * alpha};
  if (transposed && alpha == 1.0 && beta == 1.0 && x[2].shape() == Shape{b.size(1)}) return {linear(a, x[1], x[2])};
  return {addmm(x[2], a, b, beta, alpha)};
}

// Gaussian elimination with row pivots: (B, n, n) -> (B). A pivot of 0 makes the determinant 0, and its gradient is
// then not exact.
Tensor determinants(Tensor a) {
  Tensor result = Tensor::ones({a.size(0)}, a.options());
  for (std::int64_t n = a.size(1); n > 0; --n) {
    const Tensor place = argmax(abs(a.select(2, 0)), 1).reshape({-1, 1, 1});
    const Tensor row = gather(a, 1, place.expand({-1, 1, n}));  // (B, 1, n)
    const Tensor pivot = row.narrow(2, 0, 1);
    result = result * where(place == 0, pivot, -pivot).flatten();
    const Tensor is_pivot = Tensor::arange(1, n, {.device = a.device()}).reshape({-1, 1}) == place;
    const Tensor rest = where(is_pivot, a.narrow(1, 0, 1), a.narrow(1, 1, n - 1));
    const Tensor step = row.narrow(2, 1, n - 1) / where(pivot == 0, 1, pivot);
    a = rest.narrow(2, 1, n - 1) - rest.narrow(2, 0, 1) * step;
  }
  return result;
}

OnnxResults determinant(const OnnxArgs& args) {
  const Tensor& x = args[0];
  if (x.dim() < 2 || x.size(-1) != x.size(-2))
    args.refuse(fmt::format("its input must be square matrices; got {}", x.shape()));
  Shape batch = x.shape();
  batch.erase(batch.size() - 1);
  batch.erase(batch.size() - 1);
  const Tensor matrices = widened(x).reshape({batch.numel(), x.size(-1), x.size(-1)});
  return {determinants(matrices).to(x.dtype()).reshape(batch)};
}

constexpr OnnxOperator kProductOperators[] = {
    {.type = "Det", .run = determinant},
    {.type = "Einsum",
     .run = [](const OnnxArgs& x) -> OnnxResults {
       return {einsum(x.text("equation", ""), {x.in.begin(), x.in.end()})};
     },
     .attributes = "equation"},
    {.type = "Gemm", .run = general_product, .attributes = "alpha beta transA transB"},
    {.type = "MatMul", .run = matrix_product},
};

}  // namespace

std::span<const OnnxOperator> onnx_product_operators() { return kProductOperators; }

}  // namespace adjoint::nn::detail

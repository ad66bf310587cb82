#include <adjoint/ops/matmul/matmul.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/one_call.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/ops/matmul/kernels.h>

#include <algorithm>

namespace adjoint {
namespace {

TensorSpec product_spec(Operands in, const NoAttr&) {
  return {{in[0].size(0), in[0].size(1), in[1].size(2)}, in[0].dtype()};
}

// Counts operands and results as moved once.
Cost cost(Operands in, Operands, const NoAttr&) {
  const double batch = static_cast<double>(in[0].size(0)), rows = static_cast<double>(in[0].size(1)),
               inner = static_cast<double>(in[0].size(2)), columns = static_cast<double>(in[1].size(2));
  const double moved = batch * (rows * inner + inner * columns + rows * columns);
  return {moved * static_cast<double>(element_size(in[0].dtype())), 2.0 * batch * rows * inner * columns};
}

Tensor batched_product(const Tensor& a, const Tensor& b);

// a (B, M, K), b (B, K, N) -> (B, M, N). matmul() has checked the operands.
constinit const OpDef<> matmul_op{.name = "matmul",
                                  .infer = product_spec,
                                  .cpu = cpu::matmul,
                                  .cuda = ADJOINT_IF_CUDA(cuda::matmul),
                                  .strided = true,
                                  .mixed_precision = MixedPrecision::kLow,
                                  .cost = cost,
                                  .vjp = {Vjp<NoAttr>{kSaveIn1,
                                                      [](const Ctx<NoAttr>& c) {
                                                        return batched_product(c.grad, c.in[1].transpose(1, 2));
                                                      }},
                                          Vjp<NoAttr>{kSaveIn0, [](const Ctx<NoAttr>& c) {
                                                        return batched_product(c.in[0].transpose(1, 2), c.grad);
                                                      }}}};

Tensor batched_product(const Tensor& a, const Tensor& b) { return apply(matmul_op, {a, b}); }

constinit const OpDef<> widened_matmul_op{
    .name = "matmul",
    .infer =
        [](Operands in, const NoAttr& attr) {
          return TensorSpec{product_spec(in, attr).shape, kFloat32};
        },
    .cpu = cpu::matmul,
    .cuda = ADJOINT_IF_CUDA(cuda::matmul),
    .strided = true,
    .mixed_precision = MixedPrecision::kLow,
    .cost = cost,
    .vjp = {
        {{kSaveIn1,
          [](const Ctx<NoAttr>& c) { return batched_product(c.grad.to(c.in[1].dtype()), c.in[1].transpose(1, 2)); }},
         {kSaveIn0,
          [](const Ctx<NoAttr>& c) { return batched_product(c.in[0].transpose(1, 2), c.grad.to(c.in[0].dtype())); }}}}};

Tensor widened_product(const Tensor& a, const Tensor& b) { return apply(widened_matmul_op, {a, b}); }

void check_operands(const Tensor& a, const Tensor& b) {
  check_defined("matmul", "a", a);
  check_defined("matmul", "b", b);
  ADJOINT_CHECK(is_floating_point(a.dtype()) && a.dtype() == b.dtype(),
                "matmul: a and b must share one floating-point dtype; got a {}, b {}; convert one with to(dtype)",
                a.dtype(), b.dtype());
  ADJOINT_CHECK(a.device() == b.device(),
                "matmul: a and b must be on one device; got a {}, b {}; move one with to(device)", a.device(),
                b.device());
  ADJOINT_CHECK(a.dim() > 0 && b.dim() > 0,
                "matmul: a and b must have an axis at least; got a {}, b {}; multiply scalars with *", a.shape(),
                b.shape());
  const std::int64_t inner = b.size(b.dim() == 1 ? 0 : -2);
  ADJOINT_CHECK(a.size(-1) == inner,
                "matmul: a's last axis must equal b's {}; got a {}, b {}; transpose an operand or check its shape",
                b.dim() == 1 ? "only one" : "last but one", a.shape(), b.shape());
}

Shape batch_shape(const Tensor& tensor) { return Shape(tensor.shape().begin(), tensor.shape().end() - 2); }

Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// Both operands have at least two axes. `multiply` is the product of (B, M, K) and (B, K, N).
Tensor product(const Tensor& a, const Tensor& b, Tensor (*multiply)(const Tensor&, const Tensor&)) {
  const std::int64_t rows = a.size(-2), inner = a.size(-1), columns = b.size(-1);
  const Shape batch = b.dim() == 2 ? batch_shape(a) : broadcast_shapes("matmul", batch_shape(a), batch_shape(b));
  const Shape result = with_matrix(batch, rows, columns);
  static_cast<void>(result.numel());  // throws before an operand is copied for a result that cannot exist
  if (b.dim() == 2) {
    // One tall matrix: a single product, whose gradient needs no sum over the batch.
    const std::int64_t all_rows = Shape(a.shape().begin(), a.shape().end() - 1).numel();
    const Tensor tall = multiply(a.reshape({1, all_rows, inner}), b.unsqueeze(0));
    return tall.reshape(result);
  }
  const std::int64_t count = batch.numel();
  const Tensor all_a = a.expand(with_matrix(batch, rows, inner)).reshape({count, rows, inner});
  const Tensor all_b = b.expand(with_matrix(batch, inner, columns)).reshape({count, inner, columns});
  return multiply(all_a, all_b).reshape(result);
}

OnnxValue matmul_onnx(OnnxCall& call, const NoAttr&) {
  const DType dtype = call.out[0].dtype();
  const auto factor = [&](std::size_t i) {
    return call.in[i].dtype() == dtype ? call.operand(i) : call.cast(call.operand(i), dtype);
  };
  return call.add("MatMul", {factor(0), factor(1)});
}

Tensor product_of_any(const Tensor& a, const Tensor& b) {
  const Tensor result = product(a.dim() == 1 ? a.unsqueeze(0) : a, b.dim() == 1 ? b.unsqueeze(-1) : b, batched_product);
  const Tensor without_column = b.dim() == 1 ? result.squeeze(-1) : result;
  return a.dim() == 1 ? without_column.squeeze(b.dim() == 1 ? -1 : -2) : without_column;
}

}  // namespace

MatrixBatch as_matrices(const Tensor& tensor) {
  const std::int64_t rows = tensor.size(1), columns = tensor.size(2);
  const Strides& strides = tensor.strides();
  // The stride of an axis of extent 1 is irrelevant.
  const auto runs = [](std::int64_t extent, std::int64_t stride) { return extent <= 1 || stride == 1; };
  const auto pitch = [](std::int64_t extent, std::int64_t stride, std::int64_t least) {
    return extent <= 1 ? std::max<std::int64_t>(least, 1) : stride;
  };
  const std::int64_t row_pitch = pitch(rows, strides[1], columns), column_pitch = pitch(columns, strides[2], rows);
  if (runs(columns, strides[2]) && row_pitch >= std::max<std::int64_t>(columns, 1)) {
    return {tensor, false, row_pitch, strides[0]};
  }
  if (runs(rows, strides[1]) && column_pitch >= std::max<std::int64_t>(rows, 1)) {
    return {tensor, true, column_pitch, strides[0]};
  }
  return {contiguous_copy(tensor), false, std::max<std::int64_t>(columns, 1), rows * columns};
}

std::array<Tensor, 2> linear_factors(std::span<const Tensor> in) {
  const auto seen = [](const Tensor& t, std::size_t rows, std::size_t columns) {
    const Shape& shape = t.shape();
    return t.view_as({1, shape[rows], shape[columns]}, {0, t.strides()[rows], t.strides()[columns]},
                     t.storage_offset());
  };
  return {seen(in[0], 0, 1), seen(in[1], 1, 0)};
}

Tensor widened_matmul(const Tensor& a, const Tensor& b) {
  check_operands(a, b);
  const auto multiply = element_size(a.dtype()) == 2 ? widened_product : batched_product;
  return detail::as_one_call(
      "matmul", matmul_onnx, NoAttr{}, [&] { return product(a, b, multiply); }, a, b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  const OpScope scope("matmul");
  if (const detail::AutocastCall low(MixedPrecision::kLow, {a, b}); low) return matmul(low[0], low[1]);
  check_operands(a, b);
  return detail::as_one_call(
      "matmul", matmul_onnx, NoAttr{}, [&] { return product_of_any(a, b); }, a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  const OpScope scope("bmm");
  check_defined("bmm", "a", a);
  check_defined("bmm", "b", b);
  ADJOINT_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0),
                "bmm: a and b must be (B, M, K) and (B, K, N); got {} and {}", a.shape(), b.shape());
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  const OpScope scope("outer");
  check_defined("outer", "a", a);
  check_defined("outer", "b", b);
  ADJOINT_CHECK(a.dim() == 1 && b.dim() == 1, "outer: a and b must have one axis each; got {} and {}", a.shape(),
                b.shape());
  return a.unsqueeze(1) * b;
}

}  // namespace adjoint

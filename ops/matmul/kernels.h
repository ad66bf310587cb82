// The matrix products' kernels by device, and how they read operands of any strides.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <array>
#include <cstdint>
#include <span>

namespace adjoint {

struct NoAttr;

/// A batch of matrices in BLAS's form: rows are `pitch` elements apart or, if transposed, columns are.
struct MatrixBatch {
  Tensor tensor;  // keeps the data alive: the operand, or a contiguous copy if BLAS cannot read the operand
  bool transposed = false;
  std::int64_t pitch = 1;
  std::int64_t batch_stride = 0;
};

/// `tensor` (B, rows, columns), of any strides.
MatrixBatch as_matrices(const Tensor& tensor);

/// linear's operands as a product's: x (M, K) as (1, M, K), weight (N, K) as (1, K, N).
std::array<Tensor, 2> linear_factors(std::span<const Tensor> in);

/// Like matmul's a @ b, but float32 if the operands have 16 bits, so that the products' sums are not rounded. Gradients
/// are rounded to 16 bits before they are multiplied, because tensor cores multiply 16-bit operands.
Tensor widened_matmul(const Tensor& a, const Tensor& b);

// matmul: in: a (B, M, K), b (B, K, N) of any strides; out: (B, M, N), contiguous, of their dtype, or of float32 for
// 16-bit operands.
// linear: in: x (M, K), weight (N, K), bias (N) of any strides; out: (M, N), contiguous: x weight^T + bias, rounded
// once.
namespace cpu {
void matmul(std::span<const Tensor> in, Tensor& out, const NoAttr&);
void linear(std::span<const Tensor> in, Tensor& out, const NoAttr&);
}  // namespace cpu

namespace cuda {
void matmul(std::span<const Tensor> in, Tensor& out, const NoAttr&);
void linear(std::span<const Tensor> in, Tensor& out, const NoAttr&);
}  // namespace cuda

}  // namespace adjoint

// The batched matrix product's kernels by device, and how they read operands of any strides.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct NoAttr;

/// A batch of matrices as BLAS takes one: rows lie `pitch` elements apart, or, transposed, columns do.
struct MatrixBatch {
  Tensor tensor;  // keeps the data: the operand, or a contiguous copy where BLAS cannot read the operand
  bool transposed = false;
  std::int64_t pitch = 1;
  std::int64_t batch_stride = 0;
};

/// `tensor` (B, rows, columns), of any strides.
MatrixBatch as_matrices(const Tensor& tensor);

namespace cpu {
/// in: a (B, M, K), b (B, K, N) of any strides; out: (B, M, N), contiguous.
void matmul(std::span<const Tensor> in, Tensor& out, const NoAttr&);
}  // namespace cpu

namespace cuda {
void matmul(std::span<const Tensor> in, Tensor& out, const NoAttr&);
}  // namespace cuda

}  // namespace adjoint

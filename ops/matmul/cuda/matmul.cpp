#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/cuda/blas.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/ops/matmul/kernels.h>

namespace adjoint::cuda {
namespace {

cudaDataType_t storage_type(DType dtype) {
  switch (dtype) {
    case kFloat16: return CUDA_R_16F;
    case kBFloat16: return CUDA_R_16BF;
    case kFloat64: return CUDA_R_64F;
    default: return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(DType dtype) {
  if (dtype == kFloat64) return CUBLAS_COMPUTE_64F;
  return dtype == kFloat32 && float32_precision() == Precision::kTF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                      : CUBLAS_COMPUTE_32F;
}

// out (B, M, N) = in[0] in[1]; with `add`, the product plus out's previous value, rounded once.
void multiply(std::span<const Tensor> in, Tensor& out, bool add) {
  const std::int64_t batch = out.size(0), rows = out.size(1), columns = out.size(2), inner = in[0].size(2);
  const MatrixBatch a = as_matrices(in[0]), b = as_matrices(in[1]);
  const DType dtype = in[0].dtype();
  const cudaDataType_t type = storage_type(dtype);
  const float one = 1.0F, zero = 0.0F;
  const double one64 = 1.0, zero64 = 0.0;
  const bool wide = dtype == kFloat64;
  const void* alpha = wide ? static_cast<const void*>(&one64) : &one;
  const void* beta = wide ? static_cast<const void*>(add ? &one64 : &zero64) : (add ? &one : &zero);
  // cuBLAS is column-major, and a row-major matrix is the transpose of its column-major reading, so the product is b^T
  // a^T.
  const Blas blas(out.device().index);
  ADJOINT_CUBLAS(cublasGemmStridedBatchedEx_64(blas.handle(), b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                               a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, columns, rows, inner, alpha,
                                               b.tensor.raw_data(), type, b.pitch, b.batch_stride, a.tensor.raw_data(),
                                               type, a.pitch, a.batch_stride, beta, out.raw_mutable_data(),
                                               storage_type(out.dtype()), columns, rows * columns, batch,
                                               compute_type(dtype), CUBLAS_GEMM_DEFAULT));
}

}  // namespace

void matmul(std::span<const Tensor> in, Tensor& out, const NoAttr&) {
  if (in[0].size(2) == 0) return fill(out, 0.0);
  multiply(in, out, false);
}

// The bias is written to the result before the product is added: 16 bits hold it exactly, and the sum is rounded once.
void linear(std::span<const Tensor> in, Tensor& out, const NoAttr&) {
  copy_into(in[2].view_as(out.shape(), {0, in[2].strides()[0]}, in[2].storage_offset()), out);
  if (in[0].size(1) == 0) return;
  Tensor result = out.view_as({1, out.size(0), out.size(1)}, {out.numel(), out.size(1), 1}, out.storage_offset());
  multiply(linear_factors(in), result, true);
}

}  // namespace adjoint::cuda

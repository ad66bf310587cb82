#include <adjoint/core/check.h>
#include <adjoint/core/cuda/blas.h>
#include <adjoint/core/fill.h>
#include <adjoint/core/op.h>
#include <adjoint/core/precision.h>
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

}  // namespace

void matmul(std::span<const Tensor> in, Tensor& out, const NoAttr&) {
  const std::int64_t batch = out.size(0), rows = out.size(1), columns = out.size(2), inner = in[0].size(2);
  if (inner == 0) return fill(out, 0.0);
  const MatrixBatch a = as_matrices(in[0]), b = as_matrices(in[1]);
  const DType dtype = out.dtype();
  const cudaDataType_t type = storage_type(dtype);
  const float one = 1.0F, zero = 0.0F;
  const double one64 = 1.0, zero64 = 0.0;
  const void* alpha = dtype == kFloat64 ? static_cast<const void*>(&one64) : &one;
  const void* beta = dtype == kFloat64 ? static_cast<const void*>(&zero64) : &zero;
  // cuBLAS counts columns first: a row-major matrix is its transpose's, so the product is b^T a^T.
  const Blas blas(out.device().index);
  ADJOINT_CUBLAS(cublasGemmStridedBatchedEx_64(blas.handle(), b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                               a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, columns, rows, inner, alpha,
                                               b.tensor.raw_data(), type, b.pitch, b.batch_stride, a.tensor.raw_data(),
                                               type, a.pitch, a.batch_stride, beta, out.raw_mutable_data(), type,
                                               columns, rows * columns, batch, compute_type(dtype),
                                               CUBLAS_GEMM_DEFAULT));
}

}  // namespace adjoint::cuda

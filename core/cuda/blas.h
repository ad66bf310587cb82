// cuBLAS: one handle per thread and device, and for each call a workspace in the order of the current stream, which
// makes its results the same from run to run.
#pragma once

#include <adjoint/core/cuda/runtime.h>

#include <cublas_v2.h>

namespace adjoint::cuda {

/// Throws Error, naming `call`, unless `status` is CUBLAS_STATUS_SUCCESS.
void check_blas(cublasStatus_t status, const char* call);

/// This thread's handle for calls on the device's current stream, while this lives. Sums of 16-bit products stay in
/// float32; scalars are read from the host.
class Blas {
 public:
  explicit Blas(int device);

  cublasHandle_t handle() const { return handle_; }

 private:
  DeviceGuard guard_;
  Workspace workspace_;
  cublasHandle_t handle_;
};

}  // namespace adjoint::cuda

#define ADJOINT_CUBLAS(call) ::adjoint::cuda::check_blas((call), #call)

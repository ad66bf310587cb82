#include <adjoint/core/cuda/blas.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/cuda/multiprocessors.h>

#include <cstddef>
#include <map>

namespace adjoint::cuda {
namespace {

// NVIDIA's recommendation for Hopper; more than enough for others.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

class Handles {
 public:
  ~Handles() {
    for (const auto& [device, handle] : handles_) cublasDestroy(handle);
  }

  cublasHandle_t of(int device) {
    cublasHandle_t& handle = handles_[device];
    if (handle == nullptr) {
      ADJOINT_CUBLAS(cublasCreate(&handle));
      ADJOINT_CUBLAS(
          cublasSetMathMode(handle, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                              CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
      ADJOINT_CUBLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    }
    return handle;
  }

 private:
  std::map<int, cublasHandle_t> handles_;
};

}  // namespace

void check_blas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail("cublas: {} must succeed; got {} ({}); see cuBLAS's documentation of the call", call,
       cublasGetStatusName(status), cublasGetStatusString(status));
}

Blas::Blas(int device) : guard_(device), workspace_(kWorkspaceBytes, device) {
  thread_local Handles handles;
  handle_ = handles.of(device);
  // Setting the stream resets the workspace, so the order matters.
  ADJOINT_CUBLAS(cublasSetStream(handle_, current_stream(device)));
  ADJOINT_CUBLAS(cublasSetWorkspace(handle_, workspace_.data(), workspace_.nbytes()));
  constexpr int kAll = 0;
  ADJOINT_CUBLAS(
      cublasSetSmCountTarget(handle_, LimitMultiprocessors::is_active() ? multiprocessor_count(device) : kAll));
}

}  // namespace adjoint::cuda

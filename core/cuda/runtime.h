// CUDA's runtime, checked: errors become exceptions that name the call, and the current device and stream are explicit.
// For .cu files and for .cpp files that are compiled only with CUDA.
#pragma once

#include <adjoint/core/base/device.h>

#include <cuda_runtime_api.h>

#include <cstddef>

namespace adjoint::detail {
class StepCapture;
}

namespace adjoint::cuda {

/// Throws Error, naming `call`, unless `status` is cudaSuccess.
void check(cudaError_t status, const char* call);

/// Throws Error unless `device` is a CUDA device that this process can use.
void check_device(const char* op, Device device);

/// Makes `device` current for CUDA's runtime while it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
  int device_;
};

/// This thread's stream on `device` (core/base/stream.h).
cudaStream_t current_stream(int device);
/// Returns the previous one.
cudaStream_t set_current_stream(int device, cudaStream_t stream);

/// Work submitted to `later` from now on starts after all work submitted to `earlier` so far; on one device or two.
void order_streams(int earlier_device, cudaStream_t earlier, int later_device, cudaStream_t later);

int multiprocessor_count(int device);

/// Uninitialised device memory, in the order of the current stream, for the duration of a scope: a kernel's workspace.
/// May be released before the kernels that use it have run.
class Workspace {
 public:
  Workspace(std::size_t nbytes, int device);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() const { return data_; }
  std::size_t nbytes() const { return nbytes_; }

 private:
  void* data_ = nullptr;
  std::size_t nbytes_;
  int device_;
  void* stream_ = nullptr;
  adjoint::detail::StepCapture* capture_ = nullptr;  // if it belongs to a captured step
};

}  // namespace adjoint::cuda

#define ADJOINT_CUDA(call) ::adjoint::cuda::check((call), #call)

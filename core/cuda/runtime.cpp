#include <adjoint/core/cuda/runtime.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/cuda/multiprocessors.h>
#include <adjoint/core/cuda/spare_workspaces.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/memory.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace adjoint::cuda {
namespace {

using adjoint::detail::context;
using adjoint::detail::kMaxDevices;

// After these errors the context is lost, and every later call fails in the same way.
bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert: return true;
    default: return false;
  }
}

int count_devices() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();  // no driver or no device: not an error of the next caller
    return 0;
  }
  return std::min(count, static_cast<int>(kMaxDevices));
}

}  // namespace

int device_count() {
  static const int count = count_devices();
  return count;
}

int compute_capability(int device) {
  int major = 0, minor = 0;
  ADJOINT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  ADJOINT_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clears recoverable errors, so that the next call is not blamed
  const char* remedy = is_sticky(status)
                           ? "a kernel that ran before may be the cause: run again with CUDA_LAUNCH_BLOCKING=1 "
                             "or under compute-sanitizer, and restart the process"
                           : "see CUDA's documentation of the call";
  fail("cuda: {} must succeed; got {} ({}); {}", call, cudaGetErrorName(status), cudaGetErrorString(status), remedy);
}

void check_device(const char* op, Device device) {
  ADJOINT_CHECK(device.is_cuda(), "{}: device must be a CUDA device; got {}; use adjoint::kCUDA", op, device);
  ADJOINT_CHECK(device.index >= 0 && device.index < device_count(),
                "{}: device must be one that there is; got {} with {} CUDA device{} present; check nvidia-smi and "
                "CUDA_VISIBLE_DEVICES",
                op, device, device_count(), device_count() == 1 ? "" : "s");
}

DeviceGuard::DeviceGuard(int device) : device_(device) {
  ADJOINT_CUDA(cudaGetDevice(&before_));
  if (before_ != device_) ADJOINT_CUDA(cudaSetDevice(device_));
}

DeviceGuard::~DeviceGuard() {
  if (before_ != device_) cudaSetDevice(before_);
}

cudaStream_t current_stream(int device) { return context().streams[static_cast<std::size_t>(device)]; }

cudaStream_t set_current_stream(int device, cudaStream_t stream) {
  return std::exchange(context().streams[static_cast<std::size_t>(device)], stream);
}

void order_streams(int earlier_device, cudaStream_t earlier, int later_device, cudaStream_t later) {
  if (earlier_device == later_device && earlier == later) return;
  cudaEvent_t event = nullptr;
  {
    const DeviceGuard guard(earlier_device);
    ADJOINT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  const std::unique_ptr<CUevent_st, void (*)(cudaEvent_t)> owner(event, [](cudaEvent_t e) { cudaEventDestroy(e); });
  {
    const DeviceGuard guard(earlier_device);
    ADJOINT_CUDA(cudaEventRecord(event, earlier));
  }
  const DeviceGuard guard(later_device);
  ADJOINT_CUDA(cudaStreamWaitEvent(later, event, 0));
}

int multiprocessor_count(int device) {
  static std::array<std::atomic<int>, kMaxDevices> counts{};
  std::atomic<int>& count = counts[static_cast<std::size_t>(device)];
  if (count.load(std::memory_order_relaxed) == 0) {
    int value = 0;
    ADJOINT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device));
    count.store(value, std::memory_order_relaxed);
  }
  return std::min(count.load(std::memory_order_relaxed), context().most_multiprocessors);
}

LimitMultiprocessors::LimitMultiprocessors(int count) : before_(std::exchange(context().most_multiprocessors, count)) {}

LimitMultiprocessors::~LimitMultiprocessors() { context().most_multiprocessors = before_; }

bool LimitMultiprocessors::is_active() { return context().most_multiprocessors != std::numeric_limits<int>::max(); }

Workspace::Workspace(std::size_t nbytes, int device) : nbytes_(nbytes), device_(device) {
  if (nbytes_ == 0) return;
  capture_ = adjoint::detail::StepCapture::current();
  if (capture_ != nullptr) {
    data_ = capture_->allocate(nbytes_);
  } else if (keeps_workspaces(nbytes_, current_stream(device_))) {
    data_ = take_workspace(nbytes_, device_);
  } else {
    data_ = allocate(nbytes_, device_, &stream_);
  }
  adjoint::detail::count_memory(Device(DeviceType::kCUDA, device_), MemoryCategory::kWorkspace, nbytes_);
}

Workspace::~Workspace() {
  if (data_ == nullptr) return;
  if (capture_ != nullptr) {
    capture_->arena()->release(data_);
  } else if (keeps_workspaces(nbytes_, stream_)) {
    leave_workspace(data_, nbytes_, device_);
  } else {
    release(data_, device_, stream_);
  }
  adjoint::detail::uncount_memory(Device(DeviceType::kCUDA, device_), MemoryCategory::kWorkspace, nbytes_);
}

}  // namespace adjoint::cuda

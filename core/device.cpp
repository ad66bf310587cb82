#include <adjoint/core/device.h>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/backend.h>
#endif

namespace adjoint {

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(static_cast<int>(device.index));
}

int cuda_device_count() {
#if defined(ADJOINT_WITH_CUDA)
  return cuda::device_count();
#else
  return 0;
#endif
}

bool cuda_is_available() { return cuda_device_count() > 0; }

Device default_device() { return cuda_is_available() ? kCUDA : kCPU; }

}  // namespace adjoint

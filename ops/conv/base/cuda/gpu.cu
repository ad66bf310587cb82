#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>

namespace adjoint::cuda {
namespace {

/// Compiled for the same architectures as all kernels.
__global__ void probe_kernel() {}

}  // namespace

bool has_wgmma_code(int device) {
  const DeviceGuard guard(device);
  cudaFuncAttributes attributes{};
  ADJOINT_CUDA(cudaFuncGetAttributes(&attributes, probe_kernel));
  return attributes.binaryVersion == 90;
}

}  // namespace adjoint::cuda

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/hopper.h>

namespace adjoint::cuda {
namespace {

/// Compiled for the architectures that all kernels are compiled for.
__global__ void probe_kernel() {}

bool has_code(int device) {
  const DeviceGuard guard(device);
  cudaFuncAttributes attributes{};
  ADJOINT_CUDA(cudaFuncGetAttributes(&attributes, probe_kernel));
  return attributes.binaryVersion == 90;
}

}  // namespace

bool runs_wgmma(int device) {
  int major = 0, minor = 0;
  ADJOINT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  ADJOINT_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  if (major != 9 || minor != 0) return false;
  static const bool built = has_code(device);
  return built;
}

}  // namespace adjoint::cuda

#include <adjoint/ops/conv/base/cuda/gpu.h>

#include <adjoint/core/cuda/runtime.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace adjoint::cuda {
namespace {

thread_local std::optional<Gpu> pretended;

Gpu ask(int device) {
  const auto attribute = [device](cudaDeviceAttr name) {
    int value = 0;
    ADJOINT_CUDA(cudaDeviceGetAttribute(&value, name, device));
    return value;
  };
  const int architecture =
      10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
  return {.architecture = architecture,
          .runs_wgmma = architecture == 90 && has_wgmma_code(device),
          .smem_bytes = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
          .smem_bytes_a_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)};
}

}  // namespace

Gpu gpu_of(int device) {
  if (pretended) return *pretended;
  thread_local std::vector<std::optional<Gpu>> known;
  const auto index = static_cast<std::size_t>(device);
  if (index >= known.size()) known.resize(index + 1);
  if (!known[index]) known[index] = ask(device);
  return *known[index];
}

PretendGpu::PretendGpu(const Gpu& gpu) : before_(std::exchange(pretended, gpu)) {}
PretendGpu::~PretendGpu() { pretended = before_; }

}  // namespace adjoint::cuda

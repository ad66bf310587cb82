#include <adjoint/core/cuda/launch.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/cuda/launch_observer.h>

#include <cxxabi.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace adjoint::cuda {
namespace {

std::atomic<LaunchObserver> launch_observer = nullptr;

std::string kernel_name(const void* kernel) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess) {
    cudaGetLastError();
    return "unknown kernel";
  }
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         std::free);
  return demangled != nullptr ? demangled.get() : mangled;
}

}  // namespace

void observe_launches(LaunchObserver observer) { launch_observer.store(observer, std::memory_order_relaxed); }

void allow_smem(const void* kernel, std::size_t smem_bytes) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, std::size_t> allowed;
  int device = 0;
  ADJOINT_CUDA(cudaGetDevice(&device));
  const std::lock_guard lock(mutex);
  std::size_t& most = allowed[{device, kernel}];
  if (smem_bytes <= most) return;
  ADJOINT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(smem_bytes)));
  most = smem_bytes;
}

void check_launch(cudaError_t status, const void* kernel, const LaunchGeometry& geometry) {
  if (status == cudaSuccess) [[likely]] {
    const LaunchObserver observer = launch_observer.load(std::memory_order_relaxed);
    if (observer == nullptr) [[likely]]
      return;
    cudaFunction_t function = nullptr;
    ADJOINT_CUDA(cudaGetFuncBySymbol(&function, kernel));
    observer(function);
    return;
  }
  cudaGetLastError();
  const char* remedy = "check the geometry against the device's limits";
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
    remedy = "this build has no code for this GPU: name its architecture in CMAKE_CUDA_ARCHITECTURES";
  }
  fail(
      "cuda: a kernel launch must succeed; got {} ({}) for {} with grid ({}, {}, {}), block ({}, {}, {}), {} bytes of "
      "shared memory; {}",
      cudaGetErrorName(status), cudaGetErrorString(status), kernel_name(kernel), geometry.grid.x, geometry.grid.y,
      geometry.grid.z, geometry.block.x, geometry.block.y, geometry.block.z, geometry.smem_bytes, remedy);
}

}  // namespace adjoint::cuda

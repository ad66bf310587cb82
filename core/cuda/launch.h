// Launching kernels: a failed launch throws Error with the kernel's name and geometry. For .cu files.
#pragma once

#include <adjoint/core/cuda/runtime.h>

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <utility>

namespace adjoint::cuda {

struct LaunchGeometry {
  dim3 grid;
  dim3 block;
  std::size_t smem_bytes = 0;  // dynamic shared memory
};

/// Throws Error, naming the kernel and its geometry, unless `status` is cudaSuccess.
void check_launch(cudaError_t status, const void* kernel, const LaunchGeometry& geometry);

/// Runs kernel(args...) on the device's current stream; nothing where the grid is empty.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const LaunchGeometry& geometry, int device, Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args), "one argument for each parameter of the kernel");
  if (geometry.grid.x == 0 || geometry.grid.y == 0 || geometry.grid.z == 0) return;
  const DeviceGuard guard(device);
  std::tuple<Params...> values(std::forward<Args>(args)...);
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {static_cast<void*>(&value)..., nullptr};
        const auto* function = reinterpret_cast<const void*>(kernel);
        check_launch(cudaLaunchKernel(function, geometry.grid, geometry.block, pointers, geometry.smem_bytes,
                                      current_stream(device)),
                     function, geometry);
      },
      values);
}

/// Lets `kernel` use `smem_bytes` of dynamic shared memory on the current device, which above 48 KiB must be asked for.
/// What was once allowed stays so: threads that launch the kernel with less do not take it back.
void allow_smem(const void* kernel, std::size_t smem_bytes);

template <class... Params>
void allow_smem(void (*kernel)(Params...), std::size_t smem_bytes) {
  allow_smem(reinterpret_cast<const void*>(kernel), smem_bytes);
}

}  // namespace adjoint::cuda

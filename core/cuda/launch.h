// Launching kernels: a failed launch throws Error with the kernel's name and geometry. For .cu files.
#pragma once

#include <adjoint/core/cuda/runtime.h>

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace adjoint::cuda {

struct LaunchGeometry {
  dim3 grid;
  dim3 block;
  std::size_t smem_bytes = 0;  // dynamic shared memory
};

/// Throws Error, naming the kernel and its geometry, unless `status` is cudaSuccess.
void check_launch(cudaError_t status, const void* kernel, const LaunchGeometry& geometry);

/// An argument converted to a kernel's parameter; not copied if it already has the type, because plans are long.
template <class Param, class Arg>
using ParameterOf = std::conditional_t<std::is_same_v<std::remove_cvref_t<Arg>, Param>, const Param&, Param>;

/// Calls use(pointers) with the addresses of the kernel's parameters.
template <class... Params, class Use, class... Args>
void with_parameters(void (*)(Params...), const Use& use, Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args), "one argument for each parameter of the kernel");
  const std::tuple<ParameterOf<Params, Args>...> values(std::forward<Args>(args)...);
  std::apply(
      [&](const auto&... value) {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&value))..., nullptr};
        use(pointers);
      },
      values);
}

/// Runs kernel(args...) on the device's current stream; does nothing if the grid is empty.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const LaunchGeometry& geometry, int device, Args&&... args) {
  if (geometry.grid.x == 0 || geometry.grid.y == 0 || geometry.grid.z == 0) return;
  const DeviceGuard guard(device);
  const auto* function = reinterpret_cast<const void*>(kernel);
  const auto run = [&](void** parameters) {
    check_launch(cudaLaunchKernel(function, geometry.grid, geometry.block, parameters, geometry.smem_bytes,
                                  current_stream(device)),
                 function, geometry);
  };
  with_parameters(kernel, run, std::forward<Args>(args)...);
}

/// Lets `kernel` use `smem_bytes` of dynamic shared memory on the current device; more than 48 KiB must be requested.
/// The limit never decreases, so threads that launch the kernel with less do not lower it.
void allow_smem(const void* kernel, std::size_t smem_bytes);

template <class... Params>
void allow_smem(void (*kernel)(Params...), std::size_t smem_bytes) {
  allow_smem(reinterpret_cast<const void*>(kernel), smem_bytes);
}

}  // namespace adjoint::cuda

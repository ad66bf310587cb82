// Launches on the emulator, in place of core/cuda/launch.h: a .cu file that includes it runs on the CPU whole, over
// tensors of the CPU, whose every byte a kernel may touch.
#pragma once

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/tests/support/emulation/emulator.h>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace adjoint::cuda {

struct LaunchGeometry {
  dim3 grid;
  dim3 block;
  std::size_t smem_bytes = 0;  // dynamic shared memory
};

template <class... Params>
void allow_smem(void (*)(Params...), std::size_t /*smem_bytes*/) {}

/// The order of execution of later launches.
inline std::uint64_t emulated_seed = 0;

/// Runs kernel(args...) in clusters; does nothing if the grid is empty.
template <class... Params, class... Args>
void emulate(void (*kernel)(Params...), const LaunchGeometry& geometry, unsigned cluster, Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args), "one argument for each parameter of the kernel");
  if (geometry.grid.x == 0 || geometry.grid.y == 0 || geometry.grid.z == 0) return;
  const std::tuple<Params...> values(std::forward<Args>(args)...);
  emulation::run({.grid = geometry.grid,
                  .block = geometry.block,
                  .cluster = cluster,
                  .seed = emulated_seed,
                  .smem_bytes = geometry.smem_bytes},
                 [&] { std::apply(kernel, values); });
}

template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const LaunchGeometry& geometry, int /*device*/, Args&&... args) {
  emulate(kernel, geometry, 1, std::forward<Args>(args)...);
}

}  // namespace adjoint::cuda

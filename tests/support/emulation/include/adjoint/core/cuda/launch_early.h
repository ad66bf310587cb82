// Launches in clusters on the emulator, in place of core/cuda/launch_early.h.
#pragma once

#include <adjoint/core/cuda/launch.h>

namespace adjoint::cuda {

template <class... Params, class... Args>
void launch_early(void (*kernel)(Params...), const LaunchGeometry& geometry, int cluster, int /*device*/,
                  Args&&... args) {
  emulate(kernel, geometry, static_cast<unsigned>(cluster), std::forward<Args>(args)...);
}

}  // namespace adjoint::cuda

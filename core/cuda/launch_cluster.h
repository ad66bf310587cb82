// Launching kernels whose blocks run in clusters. For .cu files.
#pragma once

#include <adjoint/core/cuda/launch.h>

#include <cuda_runtime.h>

#include <utility>

namespace adjoint::cuda {

/// launch() with `cluster` neighbouring blocks along x running together, which divides the grid.
template <class... Params, class... Args>
void launch_clusters(void (*kernel)(Params...), const LaunchGeometry& geometry, int cluster, int device,
                     Args&&... args) {
  if (geometry.grid.x == 0 || geometry.grid.y == 0 || geometry.grid.z == 0) return;
  const DeviceGuard guard(device);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = geometry.grid;
  config.blockDim = geometry.block;
  config.dynamicSmemBytes = geometry.smem_bytes;
  config.stream = current_stream(device);
  config.attrs = &attribute;
  config.numAttrs = 1;
  const auto* function = reinterpret_cast<const void*>(kernel);
  const auto run = [&](void** parameters) {
    check_launch(cudaLaunchKernelExC(&config, function, parameters), function, geometry);
  };
  with_parameters(kernel, run, std::forward<Args>(args)...);
}

}  // namespace adjoint::cuda

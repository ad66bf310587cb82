// Launches of Hopper's kernels: in clusters, and early. For .cu files.
#pragma once

#include <adjoint/core/cuda/launch.h>

#include <cuda_runtime.h>

#include <utility>

namespace adjoint::cuda {

/// Returns true if the driver lets graphs capture early launches; without that they wait like any other.
inline bool captures_early_launches() {
  static const bool captures = [] {
    constexpr int kSince = 12030;  // CUDA 12.3
    int version = 0;
    ADJOINT_CUDA(cudaDriverGetVersion(&version));
    return version >= kSince;
  }();
  return captures;
}

/// launch() of a kernel for sm_90 that itself waits for earlier kernels (ptx::wait_for_earlier_kernels()): its blocks
/// start as soon as the earlier kernels' blocks leave room. `cluster` neighbouring blocks along x, which must divide
/// the grid, run together.
template <class... Params, class... Args>
void launch_early(void (*kernel)(Params...), const LaunchGeometry& geometry, int cluster, int device, Args&&... args) {
  if (geometry.grid.x == 0 || geometry.grid.y == 0 || geometry.grid.z == 0) return;
  const DeviceGuard guard(device);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (captures_early_launches()) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(cluster);
    attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = geometry.grid;
  config.blockDim = geometry.block;
  config.dynamicSmemBytes = geometry.smem_bytes;
  config.stream = current_stream(device);
  config.attrs = attributes;
  config.numAttrs = count;
  const auto* function = reinterpret_cast<const void*>(kernel);
  const auto run = [&](void** parameters) {
    check_launch(cudaLaunchKernelExC(&config, function, parameters), function, geometry);
  };
  with_parameters(kernel, run, std::forward<Args>(args)...);
}

}  // namespace adjoint::cuda

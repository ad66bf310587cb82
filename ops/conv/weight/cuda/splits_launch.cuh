// Launches the sum over the splits of conv_weight's tensor-core kernels.
#pragma once

#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/weight/cuda/splits.cuh>

namespace adjoint::cuda::weight {

/// `early` if the kernel before it is Hopper's.
template <class T>
void add_splits(const WeightPlan& plan, const float* partial, T* filter, int device, bool early,
                const WeightOrder& order = {}) {
  const AddGrid grid = add_grid(plan);
  const auto kernel = add_splits_kernel_of<T>(grid);
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(grid.blocks)), dim3(kAddThreads), grid.smem_bytes};
  if (early) {
    launch_early(kernel, geometry, 1, device, plan, order, grid, partial, filter);
  } else {
    launch(kernel, geometry, device, plan, order, grid, partial, filter);
  }
}

}  // namespace adjoint::cuda::weight

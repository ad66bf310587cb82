// Launches the sum over the splits of conv_weight's tensor-core kernels.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/cuda/weight_add_splits.cuh>

namespace adjoint::cuda::weight {

template <class T>
void add_splits(const WeightPlan& plan, const float* partial, T* filter, int device, const WeightOrder& order = {}) {
  const AddGrid grid = add_grid(plan);
  launch(add_splits_kernel<T>, {dim3(static_cast<unsigned>(grid.blocks)), dim3(kAddThreads), grid.smem_bytes}, device,
         plan, order, grid, partial, filter);
}

}  // namespace adjoint::cuda::weight

// The compiled kernels whose stages the copy engine brings.
#pragma once

#include <adjoint/ops/conv/weight/cuda/boxes/kernel.cuh>
#include <adjoint/ops/conv/weight/cuda/tiles.cuh>

namespace adjoint::cuda::weight {

struct BoxesFamily {
  using Kernel = void (*)(WeightPlan, BoxOperands);
  template <Arithmetic kArithmetic, int kMTiles, int kColumns>
  static Kernel get() {
    return boxes_weight_kernel<kArithmetic, kMTiles, kColumns>;
  }
};

}  // namespace adjoint::cuda::weight

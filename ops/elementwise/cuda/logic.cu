#include <adjoint/ops/elementwise/kernels.h>
#include <adjoint/ops/elementwise/cuda/map.cuh>

namespace adjoint::cuda {
ADJOINT_LOGIC_FUNCTORS(ADJOINT_INSTANTIATE_MAP)
}  // namespace adjoint::cuda

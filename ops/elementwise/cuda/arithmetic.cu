#include <adjoint/ops/elementwise/cuda/map.cuh>
#include <adjoint/ops/elementwise/kernels.h>

namespace adjoint::cuda {
ADJOINT_ARITHMETIC_FUNCTORS(ADJOINT_INSTANTIATE_MAP)
}  // namespace adjoint::cuda

#include <adjoint/ops/elementwise/kernels.h>
#include <adjoint/ops/elementwise/cuda/map.cuh>

namespace adjoint::cuda {
ADJOINT_ACTIVATIONS(ADJOINT_INSTANTIATE_UNARY, ADJOINT_INSTANTIATE_UNARY, ADJOINT_INSTANTIATE_UNARY)
ADJOINT_PARAMETRIC_FUNCTORS(ADJOINT_INSTANTIATE_MAP)
}  // namespace adjoint::cuda

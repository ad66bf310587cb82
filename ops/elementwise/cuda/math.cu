#include <adjoint/ops/elementwise/kernels.h>
#include <adjoint/ops/elementwise/cuda/map.cuh>

namespace adjoint::cuda {
ADJOINT_UNARY_MATH_FUNCTIONS(ADJOINT_INSTANTIATE_UNARY)
ADJOINT_INSTANTIATE_UNARY(Clamp)
ADJOINT_INSTANTIATE_UNARY(NanToNum)
}  // namespace adjoint::cuda

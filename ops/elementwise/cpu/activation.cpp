#include <adjoint/ops/elementwise/cpu/map.h>
#include <adjoint/ops/elementwise/kernels.h>

namespace adjoint::cpu {
ADJOINT_ACTIVATIONS(ADJOINT_INSTANTIATE_UNARY, ADJOINT_INSTANTIATE_UNARY, ADJOINT_INSTANTIATE_UNARY)
ADJOINT_PARAMETRIC_FUNCTORS(ADJOINT_INSTANTIATE_MAP)
}  // namespace adjoint::cpu

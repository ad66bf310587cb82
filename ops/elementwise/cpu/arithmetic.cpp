#include <adjoint/ops/elementwise/cpu/map.h>
#include <adjoint/ops/elementwise/kernels.h>

namespace adjoint::cpu {
ADJOINT_ARITHMETIC_FUNCTORS(ADJOINT_UP_TO_AVX2)
ADJOINT_STEP_FUNCTIONS(ADJOINT_UP_TO_AVX2)

ADJOINT_ARITHMETIC_FUNCTORS(ADJOINT_INSTANTIATE_MAP)
ADJOINT_STEP_FUNCTIONS(ADJOINT_INSTANTIATE_MAP)
}  // namespace adjoint::cpu

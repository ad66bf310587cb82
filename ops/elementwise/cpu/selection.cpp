#include <adjoint/ops/elementwise/cpu/map.h>
#include <adjoint/ops/elementwise/kernels.h>

namespace adjoint::cpu {
ADJOINT_SELECTION_FUNCTORS(ADJOINT_UP_TO_AVX2)

ADJOINT_SELECTION_FUNCTORS(ADJOINT_INSTANTIATE_MAP)
}  // namespace adjoint::cpu

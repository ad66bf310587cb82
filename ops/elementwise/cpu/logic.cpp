#include <adjoint/ops/elementwise/cpu/map.h>
#include <adjoint/ops/elementwise/kernels.h>

namespace adjoint::cpu {
ADJOINT_LOGIC_FUNCTORS(ADJOINT_INSTANTIATE_MAP)
}  // namespace adjoint::cpu

#include <adjoint/ops/elementwise/cpu/map.h>
#include <adjoint/ops/elementwise/kernels.h>

namespace adjoint::cpu {
ADJOINT_UNARY_UP_TO_AVX2(Square)
ADJOINT_UP_TO_AVX2(Erf)
ADJOINT_UNARY_UP_TO_AVX2(Abs)
ADJOINT_UNARY_UP_TO_AVX2(Clamp)
ADJOINT_UNARY_UP_TO_AVX2(NanToNum)

ADJOINT_UNARY_MATH_FUNCTIONS(ADJOINT_INSTANTIATE_UNARY)
ADJOINT_INSTANTIATE_UNARY(Clamp)
ADJOINT_INSTANTIATE_UNARY(NanToNum)
}  // namespace adjoint::cpu

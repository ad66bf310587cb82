// Declares glibc's vector math (libmvec) to GCC: in loops of an including file, libm's functions of float32 compute
// vectors, with at most 4 units of error in the last place. float64 keeps libm's accuracy. With other compilers and C
// libraries nothing changes. Internal.
//
// A loop that does not consist of whole vectors computes its last numbers by libm's own functions, which round
// differently. Such a file may therefore only contain loops of a fixed count of numbers (ops/elementwise/cpu/map.h), so
// that a result does not depend on its position.
#pragma once

#include <cmath>

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__CUDACC__)
#if __GLIBC_PREREQ(2, 35)

#define ADJOINT_VECTOR_FUNCTION(name) __attribute__((simd("notinbranch"))) float name(float) noexcept;
#define ADJOINT_VECTOR_FUNCTION_OF_TWO(name) __attribute__((simd("notinbranch"))) float name(float, float) noexcept;

extern "C" {
ADJOINT_VECTOR_FUNCTION(acosf)
ADJOINT_VECTOR_FUNCTION(asinf)
ADJOINT_VECTOR_FUNCTION(atanf)
ADJOINT_VECTOR_FUNCTION(cosf)
ADJOINT_VECTOR_FUNCTION(coshf)
ADJOINT_VECTOR_FUNCTION(erff)
ADJOINT_VECTOR_FUNCTION(expf)
ADJOINT_VECTOR_FUNCTION(expm1f)
ADJOINT_VECTOR_FUNCTION(logf)
ADJOINT_VECTOR_FUNCTION(log1pf)
ADJOINT_VECTOR_FUNCTION(log2f)
ADJOINT_VECTOR_FUNCTION(sinf)
ADJOINT_VECTOR_FUNCTION(sinhf)
ADJOINT_VECTOR_FUNCTION(tanf)
ADJOINT_VECTOR_FUNCTION(tanhf)
ADJOINT_VECTOR_FUNCTION_OF_TWO(atan2f)
ADJOINT_VECTOR_FUNCTION_OF_TWO(powf)
}

#undef ADJOINT_VECTOR_FUNCTION
#undef ADJOINT_VECTOR_FUNCTION_OF_TWO
#endif
#endif

// mma.sync's product in an arithmetic.
#pragma once

#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/core/cuda/mma.cuh>

#include <cstdint>

namespace adjoint::cuda {

/// d += a * b, as in mma.cuh, of halves, or of tf32 for the other arithmetics.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void mma_multiply(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  if constexpr (kArithmetic == Arithmetic::kBFloat16) {
    mma::multiply_bf16(d, a, b);
  } else if constexpr (kArithmetic == Arithmetic::kFloat16) {
    mma::multiply_f16(d, a, b);
  } else {
    mma::multiply_tf32(d, a, b);
  }
}

}  // namespace adjoint::cuda

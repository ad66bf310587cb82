// Wrappers of single instructions beside ptx.cuh's: wide loads from shared memory, powers of two, pairs of halves.
#pragma once

#include <cstdint>

namespace adjoint::cuda::ptx {

/// Sixteen bytes, aligned.
__device__ __forceinline__ void load_shared_quad(std::uint32_t (&values)[4], std::uint32_t address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(address));
}

/// 2 to the power of x, with a relative error of about 2^-22; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approximate(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
  return result;
}

/// Both numbers rounded to halves, the first in the lower 16 bits.
__device__ __forceinline__ std::uint32_t pack_bf16(float first, float second) {
  std::uint32_t unit;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(unit) : "f"(second), "f"(first));
  return unit;
}
__device__ __forceinline__ std::uint32_t pack_f16(float first, float second) {
  std::uint32_t unit;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(unit) : "f"(second), "f"(first));
  return unit;
}

}  // namespace adjoint::cuda::ptx

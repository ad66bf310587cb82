// bfloat16 for emulator.h. Not CUDA's own header.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {
  std::uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 v) { return static_cast<float>(std::bit_cast<adjoint::bfloat16>(v)); }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return std::bit_cast<__nv_bfloat16>(adjoint::bfloat16(v)); }

// float16 for emulator.h. Not CUDA's own header.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

struct __half {
  std::uint16_t bits;
};
inline float __half2float(__half v) { return static_cast<float>(std::bit_cast<adjoint::float16>(v)); }
inline __half __float2half_rn(float v) { return std::bit_cast<__half>(adjoint::float16(v)); }

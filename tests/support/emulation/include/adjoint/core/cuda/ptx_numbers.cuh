// core/cuda/ptx_numbers.cuh for emulator.h: the same names.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/tests/support/emulation/emulator.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace adjoint::cuda::ptx {

inline void load_shared_quad(std::uint32_t (&values)[4], std::uint32_t address) {
  if (address % 16 != 0) throw std::runtime_error("emulated ld.shared.v4.b32: unaligned");
  std::memcpy(values, emulation::shared_pointer(address), sizeof(values));
}
inline float exp2_approximate(float x) {
  const float result = std::exp2(x);
  return result < 0x1p-126F ? 0.0F : result;
}
inline std::uint32_t pack_bf16(float first, float second) {
  const auto bits = [](float v) { return std::uint32_t{std::bit_cast<std::uint16_t>(bfloat16(v))}; };
  return bits(first) | bits(second) << 16;
}
inline std::uint32_t pack_f16(float first, float second) {
  const auto bits = [](float v) { return std::uint32_t{std::bit_cast<std::uint16_t>(float16(v))}; };
  return bits(first) | bits(second) << 16;
}

}  // namespace adjoint::cuda::ptx

// core/cuda/mma.cuh for emulator.h: the same names.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/tests/support/emulation/emulator.h>
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

namespace adjoint::cuda::mma {

/// `value(unit, element)` reads an operand's register.
template <int kElements, class Value>
void emulated_multiply(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Value value) {
  struct Lane {
    float* d;
    const std::uint32_t *a, *b;
  } lane{d, a, b};
  emulation::warp_collective(&lane, [&](void* const* lanes) {
    const auto of = [&](int i) -> const Lane& { return *static_cast<const Lane*>(lanes[i]); };
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        float sum = 0;
        for (int unit = 0; unit < 8; ++unit) {
          const std::uint32_t x = of(4 * (row % 8) + unit % 4).a[unit / 4 * 2 + row / 8];
          const std::uint32_t y = of(4 * column + unit % 4).b[unit / 4];
          for (int e = 0; e < kElements; ++e) sum += value(x, e) * value(y, e);
        }
        of(4 * (row % 8) + column / 2).d[row / 8 * 2 + column % 2] += sum;
      }
    }
  });
}

inline void multiply_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  emulated_multiply<1>(d, a, b, [](std::uint32_t unit, int) { return __uint_as_float(unit & 0xffffe000U); });
}
inline void multiply_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  emulated_multiply<2>(d, a, b, [](std::uint32_t unit, int element) {
    return static_cast<float>(std::bit_cast<bfloat16>(static_cast<std::uint16_t>(unit >> (16 * element))));
  });
}
inline void multiply_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  emulated_multiply<2>(d, a, b, [](std::uint32_t unit, int element) {
    return static_cast<float>(std::bit_cast<float16>(static_cast<std::uint16_t>(unit >> (16 * element))));
  });
}

}  // namespace adjoint::cuda::mma

// core/cuda/wgmma_rows.cuh for emulator.h: the same names.
#pragma once

#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>

#include <cstdint>

namespace adjoint::cuda::wgmma {

template <int kBlockRows>
std::uint64_t rows_descriptor(std::uint32_t shared_address) {
  return static_cast<std::uint64_t>((shared_address & 0x3ffffU) >> 4) | std::uint64_t{kBlockRows * 128 >> 4} << 16 |
         std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

template <Operand kOperand, int kColumns>
void multiply_rows(float* d, const std::uint32_t (&a)[4], std::uint64_t b) {
  static_assert(kOperand != Operand::kTF32);
  emulation::current().open_products.push_back(
      {d, {a[0], a[1], a[2], a[3]}, 0, b, kColumns, static_cast<int>(kOperand), true, false, true});
}

}  // namespace adjoint::cuda::wgmma

// core/cuda/wgmma_shared.cuh for emulator.h: the same names.
#pragma once

#include <adjoint/core/cuda/wgmma.cuh>

#include <cstdint>

namespace adjoint::cuda::wgmma {

template <Operand kOperand, int kColumns>
void multiply_shared(float* d, std::uint64_t a, std::uint64_t b, int accumulate) {
  emulation::current().open_products.push_back({d, {}, a, b, kColumns, static_cast<int>(kOperand), accumulate != 0});
}

template <Operand kOperand, Major kA, Major kB, int kColumns = 128>
void multiply_blocks(float* d, std::uint64_t a, std::uint64_t b, int accumulate) {
  static_assert(kOperand != Operand::kTF32 || (kA == Major::kK && kB == Major::kK));
  emulation::current().open_products.push_back(
      {d, {}, a, b, kColumns, static_cast<int>(kOperand), accumulate != 0, kA == Major::kMN, kB == Major::kMN});
}

}  // namespace adjoint::cuda::wgmma

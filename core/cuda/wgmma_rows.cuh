// wgmma with A from registers and B contiguous along N, for halves, and narrow products of operands in shared memory.
// Registers are those of wgmma.cuh.
#pragma once

#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>

#include <cstdint>

namespace adjoint::cuda::wgmma {

/// For B (K, N): blocks of 64 elements along N, 128 bytes, and kBlockRows along K, one after the other, swizzled as in
/// swizzled_descriptor(). The address advances by kMajorStep<Major::kMN> for each product's 16 of K.
template <int kBlockRows>
__device__ __forceinline__ std::uint64_t rows_descriptor(std::uint32_t shared_address) {
  constexpr std::uint64_t kBlock = kBlockRows * 128, kEightRows = 8 * 128;
  return static_cast<std::uint64_t>((shared_address & 0x3ffffU) >> 4) | kBlock >> 4 << 16 | kEightRows >> 4 << 32 |
         std::uint64_t{1} << 62;
}

/// D += A * B, with rows_descriptor()'s B.
template <Operand kOperand, int kColumns>
__device__ __forceinline__ void multiply_rows(float (&d)[kColumns / 2], const std::uint32_t (&a)[4], std::uint64_t b);

/// `factors` and `flag`: names of the operands after the sums.
#define ADJOINT_WGMMA_MULTIPLY_ROWS(operand, columns, sums, factors, flag, instruction)                \
  template <>                                                                                          \
  __device__ __forceinline__ void multiply_rows<Operand::operand, columns>(float(&d)[sums],            \
                                                                           const std::uint32_t(&a)[4], \
                                                                           std::uint64_t b) {          \
    asm volatile(ADJOINT_WGMMA_STATEMENT(columns, sums, instruction, factors, flag, ", 1")             \
                 : ADJOINT_WGMMA_SUMS_##sums(0)                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                        \
  }
#define ADJOINT_WGMMA_MULTIPLY_ROWS_ALL(operand, instruction)                                    \
  ADJOINT_WGMMA_MULTIPLY_ROWS(operand, 64, 32, "{%32, %33, %34, %35}, %36", "%37", instruction)  \
  ADJOINT_WGMMA_MULTIPLY_ROWS(operand, 128, 64, "{%64, %65, %66, %67}, %68", "%69", instruction) \
  ADJOINT_WGMMA_MULTIPLY_ROWS(operand, 256, 128, "{%128, %129, %130, %131}, %132", "%133", instruction)

ADJOINT_WGMMA_MULTIPLY_ROWS_ALL(kBFloat16, "k16.f32.bf16.bf16")
ADJOINT_WGMMA_MULTIPLY_ROWS_ALL(kFloat16, "k16.f32.f16.f16")

#undef ADJOINT_WGMMA_MULTIPLY_ROWS_ALL
#undef ADJOINT_WGMMA_MULTIPLY_ROWS

template <>
__device__ __forceinline__ void multiply_shared<Operand::kTF32, 32>(float (&d)[16], std::uint64_t a, std::uint64_t b,
                                                                    int accumulate) {
  asm volatile(ADJOINT_WGMMA_STATEMENT(32, 16, "k8.f32.tf32.tf32", "%16, %17", "%18", "")
               : ADJOINT_WGMMA_SUMS_16(0)
               : "l"(a), "l"(b), "r"(accumulate));
}

}  // namespace adjoint::cuda::wgmma

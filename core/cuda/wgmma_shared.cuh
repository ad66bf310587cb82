// wgmma with both operands in shared memory: D (64, N) += A (64, K) * B (K, N) by one warpgroup, float32 sums. Layouts
// and the order of D are those of wgmma.cuh. A is laid out like B, K-major: without swizzle, [unit / 4][row][unit % 4],
// for matrix_descriptor(), or for swizzled_descriptor(); or both are in block_descriptor()'s blocks.
#pragma once

#include <adjoint/core/cuda/wgmma.cuh>

#include <cstdint>

namespace adjoint::cuda::wgmma {

/// Eight units of K. D = A * B if `accumulate` is 0, else D += A * B.
template <Operand kOperand, int kColumns>
__device__ __forceinline__ void multiply_shared(float (&d)[kColumns / 2], std::uint64_t a, std::uint64_t b,
                                                int accumulate);

/// `factors` and `flag`: names of the operands after the sums.
#define ADJOINT_WGMMA_MULTIPLY_SHARED(operand, columns, sums, factors, flag, instruction, majors)               \
  template <>                                                                                                   \
  __device__ __forceinline__ void multiply_shared<Operand::operand, columns>(float(&d)[sums], std::uint64_t a,  \
                                                                             std::uint64_t b, int accumulate) { \
    asm volatile(ADJOINT_WGMMA_STATEMENT(columns, sums, instruction, factors, flag, majors)                     \
                 : ADJOINT_WGMMA_SUMS_##sums(0)                                                                 \
                 : "l"(a), "l"(b), "r"(accumulate));                                                            \
  }
#define ADJOINT_WGMMA_MULTIPLY_SHARED_ALL(operand, instruction, majors)                   \
  ADJOINT_WGMMA_MULTIPLY_SHARED(operand, 64, 32, "%32, %33", "%34", instruction, majors)  \
  ADJOINT_WGMMA_MULTIPLY_SHARED(operand, 128, 64, "%64, %65", "%66", instruction, majors) \
  ADJOINT_WGMMA_MULTIPLY_SHARED(operand, 256, 128, "%128, %129", "%130", instruction, majors)

ADJOINT_WGMMA_MULTIPLY_SHARED_ALL(kTF32, "k8.f32.tf32.tf32", "")
ADJOINT_WGMMA_MULTIPLY_SHARED_ALL(kBFloat16, "k16.f32.bf16.bf16", ", 0, 0")
ADJOINT_WGMMA_MULTIPLY_SHARED_ALL(kFloat16, "k16.f32.f16.f16", ", 0, 0")

#undef ADJOINT_WGMMA_MULTIPLY_SHARED_ALL
#undef ADJOINT_WGMMA_MULTIPLY_SHARED

/// Sixteen halves of K, or eight tf32, of 64 rows and 64 or 128 columns in blocks. D = A * B if `accumulate` is 0,
/// otherwise D += A * B.
template <Operand kOperand, Major kA, Major kB, int kColumns = 128>
__device__ __forceinline__ void multiply_blocks(float (&d)[kColumns / 2], std::uint64_t a, std::uint64_t b,
                                                int accumulate) {
  static_assert(kColumns == 64 || kColumns == 128);
  static_assert(kOperand != Operand::kTF32 || (kA == Major::kK && kB == Major::kK));
  if constexpr (kOperand == Operand::kTF32) {
    multiply_shared<kOperand, kColumns>(d, a, b, accumulate);
  } else {
    constexpr int kTransposedA = kA == Major::kMN, kTransposedB = kB == Major::kMN;
#define ADJOINT_WGMMA_MULTIPLY_BLOCKS(columns, sums, instruction, factors, flag, majors)  \
  asm volatile(ADJOINT_WGMMA_STATEMENT(columns, sums, instruction, factors, flag, majors) \
               : ADJOINT_WGMMA_SUMS_##sums(0)                                             \
               : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposedA), "n"(kTransposedB))
#define ADJOINT_WGMMA_MULTIPLY_BLOCKS_OF(instruction)                                     \
  if constexpr (kColumns == 128) {                                                        \
    ADJOINT_WGMMA_MULTIPLY_BLOCKS(128, 64, instruction, "%64, %65", "%66", ", %67, %68"); \
  } else {                                                                                \
    ADJOINT_WGMMA_MULTIPLY_BLOCKS(64, 32, instruction, "%32, %33", "%34", ", %35, %36");  \
  }
    if constexpr (kOperand == Operand::kBFloat16) {
      ADJOINT_WGMMA_MULTIPLY_BLOCKS_OF("k16.f32.bf16.bf16")
    } else {
      ADJOINT_WGMMA_MULTIPLY_BLOCKS_OF("k16.f32.f16.f16")
    }
#undef ADJOINT_WGMMA_MULTIPLY_BLOCKS_OF
#undef ADJOINT_WGMMA_MULTIPLY_BLOCKS
  }
}

}  // namespace adjoint::cuda::wgmma

// wgmma with A from registers: D (64, N) += A (64, K) * B (K, N) by one warpgroup, float32 sums. An operand register
// holds one "unit": a tf32, or two halves adjacent in K; each instruction covers 8 units of K.
//
// A: thread holds a[0] = (row g, unit t), a[1] = (g + 8, t), a[2] = (g, t + 4), a[3] = (g + 8, t + 4), where g = lane /
// 4, t = lane % 4, rows counted from 16 * warp. D: d[4 * j + ...] = (g, 8 j + 2 t), (g, 8 j + 2 t + 1), (g + 8, ...),
// (g + 8, ...). B: shared memory, K-major without swizzle: [unit / 4][column][unit % 4], 16 bytes a row, as
// matrix_descriptor() says.
#pragma once

#include <adjoint/core/cuda/wgmma_statement.cuh>

#include <cstdint>

namespace adjoint::cuda::wgmma {

enum class Operand { kTF32, kBFloat16, kFloat16 };

/// Without swizzle: core matrices of 8 times 16 bytes, `k_stride_bytes` apart along K and `row_stride_bytes` apart
/// along M or N. If an operand is K-major, the 8 are rows and 16 bytes of K are adjacent; for halves that are not
/// K-major, the 8 are along K.
__device__ __forceinline__ std::uint64_t matrix_descriptor(std::uint32_t shared_address, int k_stride_bytes,
                                                           int row_stride_bytes = 128) {
  return static_cast<std::uint64_t>((shared_address & 0x3ffffU) >> 4) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(k_stride_bytes) >> 4) << 16 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(row_stride_bytes) >> 4) << 32;
}

/// K-major with the 128-byte swizzle: the 128 bytes of K of eight columns one after the other, `eight_bytes` from those
/// of the previous eight, with 16-byte chunks at chunk ^ (address / 128 % 8). The first column's bytes may therefore
/// begin at any multiple of 128; the address advances along K within them.
__device__ __forceinline__ std::uint64_t swizzled_descriptor(std::uint32_t shared_address, int eight_bytes = 1024) {
  return static_cast<std::uint64_t>((shared_address & 0x3ffffU) >> 4) | std::uint64_t{1} << 16 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(eight_bytes) >> 4) << 32 | std::uint64_t{1} << 62;
}

/// The operand's axis that is contiguous in shared memory: the summed axis, or the other.
enum class Major { kK, kMN };

/// Blocks of 128 bytes along the contiguous axis and 64 elements along the other, of 8 KB each and one after the other
/// if the operand has more than 64 along M or N; swizzled as in swizzled_descriptor(). The address advances by
/// kMajorStep along K.
template <Major kMajor>
__device__ __forceinline__ std::uint64_t block_descriptor(std::uint32_t shared_address) {
  if constexpr (kMajor == Major::kK) return swizzled_descriptor(shared_address);
  constexpr std::uint64_t kBlock = 64 * 128, kRows = 8 * 128;  // to the next 64 along M or N, to the next 8 along K
  return static_cast<std::uint64_t>((shared_address & 0x3ffffU) >> 4) | kBlock >> 4 << 16 | kRows >> 4 << 32 |
         std::uint64_t{1} << 62;
}
/// The step from one product's K to the next one's, in units of 16 bytes.
template <Major kMajor>
inline constexpr int kMajorStep = kMajor == Major::kK ? 2 : 128;

/// Advances a descriptor's address, which is in the lower word, by `by` * 16 bytes.
__device__ __forceinline__ std::uint64_t moved(std::uint64_t descriptor, int by) {
  return descriptor >> 32 << 32 | (static_cast<std::uint32_t>(descriptor) + static_cast<std::uint32_t>(by));
}

/// Call it before the first multiply(), and after any ordinary write to its registers.
__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
/// Waits until at most kPending groups are in flight.
template <int kPending>
__device__ __forceinline__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving ordinary uses of registers across the asynchronous products around this point: before
/// fence() for written registers, after wait() for read ones.
template <int kCount>
__device__ __forceinline__ void pin(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pin(std::uint32_t (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

/// D = A * B if `accumulate` is 0, else D += A * B.
template <Operand kOperand, int kColumns>
__device__ __forceinline__ void multiply(float (&d)[kColumns / 2], const std::uint32_t (&a)[4], std::uint64_t b,
                                         int accumulate = 1);

/// `factors` and `flag`: names of the operands after the sums.
#define ADJOINT_WGMMA_MULTIPLY(operand, columns, sums, factors, flag, instruction, majors)                         \
  template <>                                                                                                      \
  __device__ __forceinline__ void multiply<Operand::operand, columns>(float(&d)[sums], const std::uint32_t(&a)[4], \
                                                                      std::uint64_t b, int accumulate) {           \
    asm volatile(ADJOINT_WGMMA_STATEMENT(columns, sums, instruction, factors, flag, majors)                        \
                 : ADJOINT_WGMMA_SUMS_##sums(0)                                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                           \
  }
#define ADJOINT_WGMMA_MULTIPLY_ALL(operand, instruction, majors)                                    \
  ADJOINT_WGMMA_MULTIPLY(operand, 16, 8, "{%8, %9, %10, %11}, %12", "%13", instruction, majors)     \
  ADJOINT_WGMMA_MULTIPLY(operand, 32, 16, "{%16, %17, %18, %19}, %20", "%21", instruction, majors)  \
  ADJOINT_WGMMA_MULTIPLY(operand, 64, 32, "{%32, %33, %34, %35}, %36", "%37", instruction, majors)  \
  ADJOINT_WGMMA_MULTIPLY(operand, 96, 48, "{%48, %49, %50, %51}, %52", "%53", instruction, majors)  \
  ADJOINT_WGMMA_MULTIPLY(operand, 128, 64, "{%64, %65, %66, %67}, %68", "%69", instruction, majors) \
  ADJOINT_WGMMA_MULTIPLY(operand, 256, 128, "{%128, %129, %130, %131}, %132", "%133", instruction, majors)

ADJOINT_WGMMA_MULTIPLY_ALL(kTF32, "k8.f32.tf32.tf32", "")
ADJOINT_WGMMA_MULTIPLY_ALL(kBFloat16, "k16.f32.bf16.bf16", ", 0")
ADJOINT_WGMMA_MULTIPLY_ALL(kFloat16, "k16.f32.f16.f16", ", 0")

#undef ADJOINT_WGMMA_MULTIPLY_ALL
#undef ADJOINT_WGMMA_MULTIPLY

}  // namespace adjoint::cuda::wgmma

// wgmma with both operands in shared memory: D (64, N) += A (64, K) * B (K, N) by one warpgroup, float32 sums. Layouts
// and the order of D are wgmma.cuh's; A lies as B does, K-major without swizzle: [unit / 4][row][unit % 4], as
// matrix_descriptor() says.
#pragma once

#include <adjoint/core/cuda/wgmma.cuh>

#include <cstdint>

namespace adjoint::cuda::wgmma {

/// Eight units of K. D = A * B where `accumulate` is 0, else D += A * B.
template <Operand kOperand, int kColumns>
__device__ __forceinline__ void multiply_shared(float (&d)[kColumns / 2], std::uint64_t a, std::uint64_t b,
                                                int accumulate);

// The sums' operands, and their names in the statement.
#define ADJOINT_WGMMA_SUMS_8(i)                                                                               \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define ADJOINT_WGMMA_SUMS_32(i) \
  ADJOINT_WGMMA_SUMS_8(i), ADJOINT_WGMMA_SUMS_8(i + 8), ADJOINT_WGMMA_SUMS_8(i + 16), ADJOINT_WGMMA_SUMS_8(i + 24)
#define ADJOINT_WGMMA_SUMS_64(i) ADJOINT_WGMMA_SUMS_32(i), ADJOINT_WGMMA_SUMS_32(i + 32)
#define ADJOINT_WGMMA_SUMS_128(i) ADJOINT_WGMMA_SUMS_64(i), ADJOINT_WGMMA_SUMS_64(i + 64)
#define ADJOINT_WGMMA_NAMES_32                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ADJOINT_WGMMA_NAMES_64                                                       \
  ADJOINT_WGMMA_NAMES_32                                                             \
  ", "                                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ADJOINT_WGMMA_NAMES_128                                                                  \
  ADJOINT_WGMMA_NAMES_64                                                                         \
  ", "                                                                                           \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/// `sums`: half the columns; `a`, `b` and `flag` are the operands after them. `instruction`: K and types. `majors`: for
/// halves, that both operands are K-major.
#define ADJOINT_WGMMA_MULTIPLY_SHARED(operand, columns, sums, a_name, b_name, flag, instruction, majors)        \
  template <>                                                                                                   \
  __device__ __forceinline__ void multiply_shared<Operand::operand, columns>(float(&d)[sums], std::uint64_t a,  \
                                                                             std::uint64_t b, int accumulate) { \
    asm volatile(                                                                                               \
        "{\n"                                                                                                   \
        ".reg .pred accumulate;\n"                                                                              \
        "setp.ne.b32 accumulate, " flag                                                                         \
        ", 0;\n"                                                                                                \
        "wgmma.mma_async.sync.aligned.m64n" #columns instruction " {" ADJOINT_WGMMA_NAMES_##sums                \
        "}, " a_name ", " b_name ", accumulate, 1, 1" majors                                                    \
        ";\n"                                                                                                   \
        "}\n"                                                                                                   \
        : ADJOINT_WGMMA_SUMS_##sums(0)                                                                          \
        : "l"(a), "l"(b), "r"(accumulate));                                                                     \
  }
#define ADJOINT_WGMMA_MULTIPLY_SHARED_ALL(operand, instruction, majors)                     \
  ADJOINT_WGMMA_MULTIPLY_SHARED(operand, 64, 32, "%32", "%33", "%34", instruction, majors)  \
  ADJOINT_WGMMA_MULTIPLY_SHARED(operand, 128, 64, "%64", "%65", "%66", instruction, majors) \
  ADJOINT_WGMMA_MULTIPLY_SHARED(operand, 256, 128, "%128", "%129", "%130", instruction, majors)

ADJOINT_WGMMA_MULTIPLY_SHARED_ALL(kTF32, "k8.f32.tf32.tf32", "")
ADJOINT_WGMMA_MULTIPLY_SHARED_ALL(kBFloat16, "k16.f32.bf16.bf16", ", 0, 0")
ADJOINT_WGMMA_MULTIPLY_SHARED_ALL(kFloat16, "k16.f32.f16.f16", ", 0, 0")

#undef ADJOINT_WGMMA_MULTIPLY_SHARED_ALL
#undef ADJOINT_WGMMA_MULTIPLY_SHARED
#undef ADJOINT_WGMMA_NAMES_128
#undef ADJOINT_WGMMA_NAMES_64
#undef ADJOINT_WGMMA_NAMES_32
#undef ADJOINT_WGMMA_SUMS_128
#undef ADJOINT_WGMMA_SUMS_64
#undef ADJOINT_WGMMA_SUMS_32
#undef ADJOINT_WGMMA_SUMS_8

}  // namespace adjoint::cuda::wgmma

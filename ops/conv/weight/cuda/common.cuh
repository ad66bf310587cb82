// Shared by the tensor-core kernels of conv_weight: their operands and copies to shared memory.
#pragma once

#include <adjoint/ops/conv/weight/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstdint>

namespace adjoint::cuda {

struct WeightOperands {
  const void* image;
  const void* feature;
  float* partial;                             // (splits, blocks, columns, rows)
  std::int32_t image_vector, feature_vector;  // elements of one copy in every row
};

namespace weight {

inline constexpr int kSumPositions = 4096;  // summed on tensor cores at a stretch

template <Arithmetic kArithmetic>
using Element = typename ArithmeticTraits<kArithmetic>::Element;

/// Copies a value of an operand from global to shared memory: asynchronously in 4, 8 or 16 bytes, or one half by way of
/// a register.
template <int kBytes>
__device__ __forceinline__ void copy_or_zero(unsigned char* smem, std::uint32_t smem_base, std::uint32_t to,
                                             const void* from, bool valid) {
  if constexpr (kBytes >= 4) {
    ptx::cp_async_zfill<kBytes>(smem_base + to, from, valid);
  } else {
    *reinterpret_cast<std::uint16_t*>(smem + to) =
        valid ? __ldg(static_cast<const std::uint16_t*>(from)) : std::uint16_t{0};
  }
}

}  // namespace weight
}  // namespace adjoint::cuda

// Conversions that the tensor-core kernels of the trio share.
#pragma once

#include <adjoint/ops/conv/cuda/arithmetic.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
struct ArithmeticTraits {
  using Element = float;
  static constexpr bool kSplit = kArithmetic == Arithmetic::kFloat32;
  static constexpr bool kHalf = false;
};
template <>
struct ArithmeticTraits<Arithmetic::kBFloat16> {
  using Element = __nv_bfloat16;
  static constexpr bool kSplit = false;
  static constexpr bool kHalf = true;
};
template <>
struct ArithmeticTraits<Arithmetic::kFloat16> {
  using Element = __half;
  static constexpr bool kSplit = false;
  static constexpr bool kHalf = true;
};

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
template <class T>
__device__ __forceinline__ T from_float(float v) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(v);
  } else {
    return __float2bfloat16_rn(v);
  }
}

/// float32 as tf32 head + tail. What is not finite goes to the tail alone: infinity times a zero tail would be NaN.
__device__ __forceinline__ void split_tf32(float value, std::uint32_t& head, std::uint32_t& tail) {
  head = ptx::round_to_tf32(value);
  const bool finite = (head & 0x7f800000U) != 0x7f800000U;
  head = finite ? head : 0;
  tail = ptx::round_to_tf32(value - __uint_as_float(head));
}

}  // namespace adjoint::cuda

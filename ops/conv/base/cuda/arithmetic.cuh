// Conversions that the tensor-core kernels of the trio share.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
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

/// Elements of a dtype of at most 32 bits.
template <DType kDType>
using FloatElement =
    std::conditional_t<kDType == kFloat32, float, std::conditional_t<kDType == kFloat16, __half, __nv_bfloat16>>;

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

/// float32 as tf32 head + tail, of which tensor cores read the tail's upper 19 bits. The tail has either sign with
/// equal probability, so the omitted bits cause no bias. Non-finite values go to the tail alone: infinity times a zero
/// tail would be NaN.
__device__ __forceinline__ void split_tf32(float value, std::uint32_t& head, std::uint32_t& tail) {
  constexpr float kRoundsToInfinity = 0x1.ffep127F;
  head = fabsf(value) < kRoundsToInfinity ? ptx::round_to_tf32(value) : 0;
  tail = __float_as_uint(value - __uint_as_float(head));
}

/// The operand vector of one position's four units, rounded; with kSplit also that of their tails.
template <bool kSplit>
__device__ __forceinline__ void pack_vector(const float (&values)[4], uint4& units, uint4& tails) {
  if constexpr (kSplit) {
    split_tf32(values[0], units.x, tails.x);
    split_tf32(values[1], units.y, tails.y);
    split_tf32(values[2], units.z, tails.z);
    split_tf32(values[3], units.w, tails.w);
  } else {
    units = make_uint4(ptx::round_to_tf32(values[0]), ptx::round_to_tf32(values[1]), ptx::round_to_tf32(values[2]),
                       ptx::round_to_tf32(values[3]));
  }
}
template <bool kSplit, class T>
__device__ __forceinline__ void pack_vector(const T (&values)[8], uint4& units, uint4& /*tails*/) {
  memcpy(&units, values, sizeof(units));
}

}  // namespace adjoint::cuda

// Tensor maps describe a tensor in global memory to the copy engine of sm_90, which copies boxes of it to shared
// memory, with zeros for elements outside, or back, skipping elements outside.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/dtype.h>

#include <cstdint>

namespace adjoint::cuda {

/// In the driver's encoding; a kernel takes it in a __grid_constant__ parameter.
struct alignas(128) TensorMap {
  std::uint64_t words[16];
};

inline constexpr int kTensorMapAxes = 5;
inline constexpr int kMostOfTensorBox = 256;  // elements along an axis

/// Axes from the innermost on, which is contiguous.
struct TensorMapLayout {
  const void* data;  // a multiple of 16
  DType dtype;       // float64, float32, bfloat16 or float16
  std::int64_t extents[kTensorMapAxes];
  std::int64_t strides[kTensorMapAxes];  // in elements, without the innermost: bytes must be multiples of 16
  std::int32_t box[kTensorMapAxes];      // at most kMostOfTensorBox; the innermost's bytes a multiple of 16
  /// Along axis 1 a box takes every row_step-th place, of at most kMostOfTensorBox; 1 to 8.
  std::int32_t row_step = 1;
  /// rounds_to_tf32: float32 arrives rounded to tf32, ties to even. swizzled: the 16-byte chunks of a box's bytes along
  /// the innermost axis are permuted by the smallest swizzle that holds them, of 32, 64 or 128 bytes, which is also the
  /// distance between runs of them: chunk i is swapped with chunk i ^ j, where j is the box's place in shared memory in
  /// units of 128 bytes, modulo the number of chunks.
  bool rounds_to_tf32 = false, swizzled = false;
};

/// Throws Error if the driver refuses the layout, or does not support tensor maps.
ADJOINT_API TensorMap encode_tensor_map(const TensorMapLayout& layout);

}  // namespace adjoint::cuda

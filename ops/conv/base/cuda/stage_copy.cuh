// Copies from global to shared memory for the kernels that multiply on the ordinary cores: asynchronous if nothing is
// converted, with zeros beyond the source.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <cstring>
#include <type_traits>

namespace adjoint::cuda {

/// Eight halves as float32.
template <class T>
__device__ __forceinline__ void store_widened(float* to, uint4 halves) {
  T values[8];
  memcpy(values, &halves, sizeof(halves));
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    *reinterpret_cast<float4*>(to + i) =
        make_float4(to_float(values[i]), to_float(values[i + 1]), to_float(values[i + 2]), to_float(values[i + 3]));
  }
}

/// 16 aligned bytes of the source, as Staged, which is T or float; zeros if they are outside. `anywhere`: a readable
/// address.
template <class T, class Staged>
__device__ __forceinline__ void stage_vector(Staged* to, const T* from, bool inside, const T* anywhere) {
  if constexpr (std::is_same_v<T, Staged>) {
    ptx::cp_async_zfill<16>(ptx::shared_address(to), inside ? from : anywhere, inside);
  } else {
    store_widened<T>(to, inside ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0));
  }
}

/// The same for one element.
template <class T, class Staged>
__device__ __forceinline__ void stage_element(Staged* to, const T* from, bool inside, const T* anywhere) {
  if constexpr (std::is_same_v<T, Staged> && sizeof(T) == 4) {
    ptx::cp_async_zfill<4>(ptx::shared_address(to), inside ? from : anywhere, inside);
  } else {
    *to = from_float<Staged>(inside ? to_float(*from) : 0.0F);
  }
}

}  // namespace adjoint::cuda

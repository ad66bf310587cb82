// A functor of pairs of elements, as the source of a reduction on CUDA (reduce.cuh). For .cu files.
#pragma once

#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

#include <cstdint>

namespace adjoint::cuda {

/// Elements of two tensors of one shape, in memory order, for sources of pairs.
template <class T>
struct PairElements {
  struct In {
    T x, y;
  };
  static constexpr int kPack = kReducePack<T>;
  const T *x, *y;

  __device__ In load(std::int64_t i) const { return {x[i], y[i]}; }
  bool aligned() const { return is_aligned<T, kPack>(x) && is_aligned<T, kPack>(y); }
  __device__ void load_pack(std::int64_t pack, bool aligned, In (&to)[kPack]) const {
    const auto of_x = cuda::load_pack<kPack>(x, pack, aligned), of_y = cuda::load_pack<kPack>(y, pack, aligned);
#pragma unroll
    for (int v = 0; v < kPack; ++v) to[v] = {of_x.values[v], of_y.values[v]};
  }
};

/// f.value(x, y), both in T's type of computation, which is the result's.
template <class F, class T>
struct Pairs : PairElements<T> {
  F f;

  __device__ compute_t<T> value(typename PairElements<T>::In loaded, std::int64_t /*i*/) const {
    return f.value(convert<compute_t<T>>(loaded.x), convert<compute_t<T>>(loaded.y));
  }
};

}  // namespace adjoint::cuda

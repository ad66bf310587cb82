// You are at stop 3 of 7 of the README's reading path, an elementwise operator: this is the kernel on a GPU.
// ops/conv/geometry.h comes next.
//
// Elementwise kernels on CUDA: a functor between storage types, run by core's launcher.
#pragma once

#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/functor.h>
#include <adjoint/core/cuda/elementwise.cuh>

#include <span>
#include <type_traits>

namespace adjoint::cuda {

template <template <class> class F, class T>
struct OnStorage {
  using Traits = F<float>;
  using Compute = functor::compute_of<F, T>;
  using Result = std::conditional_t<Traits::kPredicate, bool, T>;

  F<Compute> functor;

  __device__ Result operator()(T a) const { return convert<Result>(functor(convert<Compute>(a))); }
  __device__ Result operator()(T a, T b) const {
    return convert<Result>(functor(convert<Compute>(a), convert<Compute>(b)));
  }
  template <class First>  // T, or bool for a mask
  __device__ Result operator()(First a, T b, T c) const {
    using FirstCompute = std::conditional_t<Traits::kMask, bool, Compute>;
    return convert<Result>(functor(convert<FirstCompute>(a), convert<Compute>(b), convert<Compute>(c)));
  }
};

template <template <class> class F>
void map(std::span<const Tensor> in, Tensor& out, const typename F<float>::Attr& attr) {
  using Traits = F<float>;
  const auto run = [&]<class T>() {
    const OnStorage<F, T> f{functor::make<F<functor::compute_of<F, T>>>(attr)};
    using Result = typename OnStorage<F, T>::Result;
    if constexpr (Traits::kArity == 1) {
      elementwise<Result(T)>(f, out, in[0]);
    } else if constexpr (Traits::kArity == 2) {
      elementwise<Result(T, T)>(f, out, in[0], in[1]);
    } else {
      elementwise<Result(std::conditional_t<Traits::kMask, bool, T>, T, T)>(f, out, in[0], in[1], in[2]);
    }
  };
  const DType dtype = in[Traits::kMask ? 1 : 0].dtype();
  if constexpr (Traits::kAccepts == functor::kFloating) {
    visit_floating(dtype, run);
  } else if constexpr (Traits::kAccepts == functor::kEverything) {
    visit(dtype, run);
  } else {
    visit(dtype, [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>) run.template operator()<T>();
    });
  }
}

}  // namespace adjoint::cuda

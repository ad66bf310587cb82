// Losses on CUDA. Sums are those of ops/reduce, over elements that are computed from the operands'.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/loss/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/ops/reduce/cuda/pairs.cuh>

namespace adjoint::cuda {
namespace {

template <class F, class T>
struct Value {
  F f;
  __device__ T operator()(T x, T y) const {
    return convert<T>(f.value(convert<compute_t<T>>(x), convert<compute_t<T>>(y)));
  }
};

template <class Gradient, class T>
struct Each {
  Gradient gradient;
  compute_t<T> scale;
  __device__ T operator()(T g, T x, T y) const {
    using C = compute_t<T>;
    return convert<T>(gradient(scale * convert<C>(g), convert<C>(x), convert<C>(y)));
  }
};

/// g is one number, on the device.
template <class Gradient, class T>
struct OfSum {
  Each<Gradient, T> each;
  const T* g;
  __device__ T operator()(T x, T y) const { return each(*g, x, y); }
};

}  // namespace

template <template <class> class F>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  const std::int64_t numel = in[0].numel();
  if (numel == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0 / attr.divisor);  // the mean of zero elements is NaN
  }
  visit_floating(out.dtype(), [&]<class T>() {
    using Functor = F<compute_t<T>>;
    const Functor f(attr.parameter);
    if (!attr.reduced) return elementwise_contiguous<T(T, T)>(Value<Functor, T>{f}, out, in[0], in[1]);
    run_reduce_stages(reduce::Total<reduce::Sum, double, T>{attr.divisor},
                      Pairs<Functor, T>{{in[0].data<T>(), in[1].data<T>()}, f}, out, {Shape{numel}, 1U, false, 1.0});
  });
}

template <template <class> class F, bool kOfY>
void loss_gradient(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    using Gradient = loss::Gradient<F, C, kOfY>;
    const Each<Gradient, T> each{Gradient{F<C>(attr.parameter)}, static_cast<C>(attr.scale())};
    if (attr.reduced) {
      elementwise_contiguous<T(T, T)>(OfSum<Gradient, T>{each, in[0].data<T>()}, out, in[1], in[2]);
    } else {
      elementwise_contiguous<T(T, T, T)>(each, out, in[0], in[1], in[2]);
    }
  });
}

ADJOINT_INSTANTIATE_LOSSES

}  // namespace adjoint::cuda

// The gradient of an activation and of the bias before it, in one pass over the gradient of the result: sum's kernel,
// over elements that are computed as it reads them, and stored.
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

namespace adjoint::cuda {
namespace {

template <class F, class T>
struct LinearGradient {
  struct In {
    T grad, kept;
  };
  F f;
  const T* grad;
  const T* kept;
  T* z;

  __device__ In load(std::int64_t i) const { return {grad[i], kept[i]}; }
  __device__ T value(In in, std::int64_t i) const {
    using C = compute_t<T>;
    const T value = convert<T>(f(convert<C>(in.grad), convert<C>(in.kept)));
    z[i] = value;
    return value;
  }
};

}  // namespace

void activation_and_bias_gradient(std::span<const Tensor> in, std::span<Tensor> out, const ActivationAttr& attr) {
  const Tensor &grad = in[0], &kept = in[1];
  constexpr std::uint32_t kChannels = 1U << 1;
  const ReduceAttr sums{grad.shape(), ((1U << grad.shape().size()) - 1U) & ~kChannels, false, 1.0};
  visit_floating(grad.dtype(), [&]<class T>() {
    visit_activation_gradient<compute_t<T>>(attr.activation, [&]<class F>(const F& f) {
      const LinearGradient<F, T> source{f, grad.data<T>(), kept.data<T>(), out[0].mutable_data<T>()};
      run_reduce_stages(reduce::Total<reduce::Sum, compute_t<T>, T>{sums.divisor}, source, out[1], sums);
    });
  });
}

}  // namespace adjoint::cuda

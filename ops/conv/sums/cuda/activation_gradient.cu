// The gradient of an activation and of the bias before it, in one pass over the gradient of the result: sum's kernel,
// over elements that are computed and stored as it reads them.
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/reduce/cuda/pairs.cuh>

namespace adjoint::cuda {
namespace {

/// x: the result's gradient, y: the tensor kept for the activation. In sum's packs, so that the bias's gradient has the
/// bits of sum's.
template <class F, class T>
struct LinearGradient : PairElements<T> {
  using In = typename PairElements<T>::In;
  using PairElements<T>::kPack;
  F f;
  T* z;

  __device__ T value(In in, std::int64_t i) const { return z[i] = of(in); }
  bool aligned() const { return PairElements<T>::aligned() && is_aligned<T, kPack>(z); }
  __device__ void values(const In (&in)[kPack], std::int64_t pack, bool aligned, T (&to)[kPack]) const {
    Pack<T, kPack> stored;
#pragma unroll
    for (int v = 0; v < kPack; ++v) stored.values[v] = to[v] = of(in[v]);
    if (aligned) {
      *reinterpret_cast<Pack<T, kPack>*>(z + pack * kPack) = stored;
    } else {
#pragma unroll
      for (int v = 0; v < kPack; ++v) z[pack * kPack + v] = to[v];
    }
  }

 private:
  __device__ T of(In in) const {
    using C = compute_t<T>;
    return convert<T>(f(convert<C>(in.x), convert<C>(in.y)));
  }
};

}  // namespace

void activation_and_bias_gradient(std::span<const Tensor> in, std::span<Tensor> out, const ActivationAttr& attr) {
  const Tensor &grad = in[0], &kept = in[1];
  const std::uint32_t channels = 1U << attr.channel_axis;
  const ReduceAttr sums{grad.shape(), ((1U << grad.shape().size()) - 1U) & ~channels, false, 1.0};
  visit_floating(grad.dtype(), [&]<class T>() {
    visit_activation_gradient<compute_t<T>>(attr.activation, [&]<class F>(const F& f) {
      const LinearGradient<F, T> source{{grad.data<T>(), kept.data<T>()}, f, out[0].mutable_data<T>()};
      run_reduce_stages(reduce::Total<reduce::Sum, compute_t<T>, T>{sums.divisor}, source, out[1], sums);
    });
  });
}

}  // namespace adjoint::cuda

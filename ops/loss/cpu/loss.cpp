// Losses on the CPU. A sum is a reduction's (ops/reduce), over what a functor makes of pairs of elements, in float64
// from one block of them to the next.
#include <adjoint/core/convert.h>
#include <adjoint/core/fill.h>
#include <adjoint/ops/loss/kernels.h>
#include <adjoint/ops/reduce/cpu/pairs.h>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kGrain = 32768;

}  // namespace

template <template <class> class F>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  const std::int64_t numel = in[0].numel();
  if (numel == 0) return fill(out, 0.0 / attr.divisor);  // a mean of nothing is NaN
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const F<C> f(attr.parameter);
    const T *x = in[0].data<T>(), *y = in[1].data<T>();
    if (!attr.reduced) {
      T* const result = out.mutable_data<T>();
      return parallel_ranges(numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
        pair_values(f, x + begin, y + begin, result + begin, end - begin);
      });
    }
    const auto sum = [&](const T* data, const Chunk& chunk, double* sums) {
      sum_pairs(f, data, y + (data - x), chunk, sums);
    };
    run_stages<T>(reduce::Total<reduce::Sum, double, T>{attr.divisor}, in[0], out, {Shape{numel}, 1U, false, 1.0}, sum);
  });
}

template <template <class> class F, bool kOfY>
void loss_gradient(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const loss::Gradient<F, C, kOfY> gradient{F<C>(attr.parameter)};
    const T *g = in[0].data<T>(), *x = in[1].data<T>(), *y = in[2].data<T>();
    T* const result = out.mutable_data<T>();
    const C scale = static_cast<C>(attr.scale());
    parallel_ranges(out.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto each = [&](std::int64_t i, C factor) {
        return convert<T>(gradient(factor, convert<C>(x[i]), convert<C>(y[i])));
      };
      if (attr.reduced) {
        const C factor = scale * convert<C>(g[0]);
        for (std::int64_t i = begin; i < end; ++i) result[i] = each(i, factor);
      } else {
        for (std::int64_t i = begin; i < end; ++i) result[i] = each(i, scale * convert<C>(g[i]));
      }
    });
  });
}

ADJOINT_INSTANTIATE_LOSSES

}  // namespace adjoint::cpu

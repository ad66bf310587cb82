// Losses on the CPU. Sums are those of ops/reduce, over a functor's values of pairs of elements, in float64 from one
// block to the next.
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/ops/loss/kernels.h>
#include <adjoint/ops/reduce/cpu/pairs.h>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kGrain = 32768;

// The sum of `values` over all pairs, divided by `divisor`.
template <class T>
void sum_losses(const PairValues<T>& values, const Tensor& x, const Tensor& y, double divisor, Tensor& out) {
  const T *const first_x = x.data<T>(), *const first_y = y.data<T>();
  run_stages<T>(reduce::Total<reduce::Sum, double, T>{divisor}, x, out, {Shape{x.numel()}, 1U, false, 1.0},
                [&](const T* at, const Chunk& chunk, double* sums) {
                  sum_pairs(values, at, first_y + (at - first_x), chunk, sums);
                });
}

}  // namespace

template <template <class> class F>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr) {
  const std::int64_t numel = in[0].numel();
  if (numel == 0) return fill(out, 0.0 / attr.divisor);  // the mean of zero elements is NaN
  visit_floating(out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const F<C> f(attr.parameter);
    if (attr.reduced) return sum_losses(PairValues<T>::of(f), in[0], in[1], attr.divisor, out);
    const T *const x = in[0].data<T>(), *const y = in[1].data<T>();
    T* const result = out.mutable_data<T>();
    parallel_ranges(numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
      pair_values(f, x + begin, y + begin, result + begin, end - begin);
    });
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
    const C shared = attr.reduced ? scale * convert<C>(g[0]) : scale;
    // The gradients of elements i < n, in C; `own` holds one gradient per element, or is null.
    const auto find = [&](const C* own, const C* xs, const C* ys, C* to, std::int64_t n) {
      if (own == nullptr) {
        for (std::int64_t i = 0; i < n; ++i) to[i] = gradient(shared, xs[i], ys[i]);
      } else {
        for (std::int64_t i = 0; i < n; ++i) to[i] = gradient(scale * own[i], xs[i], ys[i]);
      }
    };
    parallel_ranges(out.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (is_reduced_float<T>) {
        C own[kConvertBlock], wide_x[kConvertBlock], wide_y[kConvertBlock];
        for (std::int64_t i = begin; i < end; i += kConvertBlock) {
          const std::int64_t n = std::min(kConvertBlock, end - i);
          if (!attr.reduced) widen_span(g + i, own, n);
          widen_span(x + i, wide_x, n);
          widen_span(y + i, wide_y, n);
          find(attr.reduced ? nullptr : own, wide_x, wide_y, wide_x, n);
          narrow_span(wide_x, result + i, n);
        }
      } else {
        find(attr.reduced ? nullptr : g + begin, x + begin, y + begin, result + begin, end - begin);
      }
    });
  });
}

ADJOINT_INSTANTIATE_LOSSES

}  // namespace adjoint::cpu

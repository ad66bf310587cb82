// Sums, products, norms and logsumexp on the CPU.
#include <adjoint/core/tensor/fill.h>
#include <adjoint/ops/reduce/cpu/pairs.h>
#include <adjoint/ops/reduce/cpu/rescaled.h>
#include <adjoint/ops/reduce/kernels.h>

#include <limits>

namespace adjoint::cpu {

void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) return fill(out, 0.0 / attr.divisor);  // the mean of zero elements is NaN
  visit(in[0].dtype(), [&]<class T>() {
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    reduce_by<T>(reduce::Total<reduce::Sum, reduce::sum_t<T>, Out>{attr.divisor}, in[0], out, attr);
  });
}

void reduce_product(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) return fill(out, 1.0);
  visit(in[0].dtype(), [&]<class T>() {
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    reduce_by<T>(reduce::Total<reduce::Product, reduce::sum_t<T>, Out>{}, in[0], out, attr);
  });
}

void sum_gated(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) return fill(out, 0.0);
  visit_floating(in[0].dtype(), [&]<class T>() {
    using A = compute_t<T>;
    const T *g = in[0].data<T>(), *x = in[1].data<T>();
    constexpr ProductWhereNotPositive kProduct;
    run_stages<T>(reduce::Total<reduce::Sum, A, T>{}, in[0], out, attr,
                  [&](const T* data, const Chunk& chunk, A* sums) {
                    sum_pairs(PairValues<T>::of(kProduct), data, x + (data - g), chunk, sums);
                  });
  });
}

void reduce_power(std::span<const Tensor> in, Tensor& out, const PowerAttr& attr) {
  if (in[0].numel() == 0) return fill(out, 0.0);
  visit_floating(in[0].dtype(), [&]<class T>() {
    using A = compute_t<T>;
    const auto by = [&]<class Map>(const Map& map) {
      reduce_by<T>(reduce::Mapped<reduce::Sum, A, T, Map>{map}, in[0], out, attr.reduce);
    };
    if (attr.p == 1.0) return by(reduce::Absolute<A>{});
    if (attr.p == 2.0) return by(reduce::Squared<A>{});
    by(reduce::Power<A>{static_cast<A>(attr.p)});
  });
  rescale_norms(in[0], out, attr);
}

void logsumexp(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) return fill(out, -std::numeric_limits<double>::infinity());
  visit_floating(in[0].dtype(),
                 [&]<class T>() { reduce_by<T>(reduce::LogSumExp<compute_t<T>, T>{}, in[0], out, attr); });
}

}  // namespace adjoint::cpu

// Sums of elements and of pairs of elements, and products, on CUDA.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/ops/reduce/cuda/pairs.cuh>

namespace adjoint::cuda {

void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0 / attr.divisor);  // the mean of zero elements is NaN
  }
  visit(in[0].dtype(), [&]<class T>() {
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    const reduce::Total<reduce::Sum, reduce::sum_t<T>, Out> total{attr.divisor};
    run_reduce_stages(total, Elements<T>{in[0].data<T>()}, out, attr);
  });
}

void reduce_product(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 1.0);
  }
  visit(in[0].dtype(), [&]<class T>() {
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    const reduce::Total<reduce::Product, reduce::sum_t<T>, Out> total{};
    run_reduce_stages(total, Elements<T>{in[0].data<T>()}, out, attr);
  });
}

void sum_gated(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0);
  }
  visit_floating(in[0].dtype(), [&]<class T>() {
    run_reduce_stages(reduce::Total<reduce::Sum, compute_t<T>, T>{},
                      Pairs<ProductWhereNotPositive, T>{{in[0].data<T>(), in[1].data<T>()}, {}}, out, attr);
  });
}

}  // namespace adjoint::cuda

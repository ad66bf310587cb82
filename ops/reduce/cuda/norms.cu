// Norms and logsumexp on CUDA.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

#include <limits>

namespace adjoint::cuda {

void reduce_power(std::span<const Tensor> in, Tensor& out, const PowerAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0);
  }
  visit_floating(in[0].dtype(), [&]<class T>() {
    using A = compute_t<T>;
    const auto by = [&]<class Sums, class Map>(Sums, const Map& map) {
      const reduce::Mapped<reduce::Sum, Sums, T, Map> rule{map};
      run_reduce_stages(rule, Elements<T>{in[0].data<T>()}, out, attr.reduce);
    };
    if (attr.p == 1.0) return by(A{}, reduce::Absolute<A>{});
    if (attr.p == 2.0) return by(double{}, reduce::Squared<double>{});  // squares exceed float32's range, roots do not
    by(A{}, reduce::Power<A>{static_cast<A>(attr.p)});
  });
}

void logsumexp(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, -std::numeric_limits<double>::infinity());
  }
  visit_floating(in[0].dtype(), [&]<class T>() {
    run_reduce_stages(reduce::LogSumExp<compute_t<T>, T>{}, Elements<T>{in[0].data<T>()}, out, attr);
  });
}

}  // namespace adjoint::cuda

// Means and variances on CUDA.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

namespace adjoint::cuda {

void var(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0 / attr.divisor);
  }
  visit_floating(in[0].dtype(), [&]<class T>() {
    const reduce::Variance<compute_t<T>, T> variance(attr.divisor);
    run_reduce_stages(variance, Elements<T>{in[0].data<T>()}, out, attr);
  });
}

Tensor moments(const Tensor& in, const ReduceAttr& attr) {
  Tensor out;
  visit_floating(in.dtype(), [&]<class T>() {
    using A = compute_t<T>;
    out = make_tensor({Shape{result_numel(attr), reduce::kMomentsFields}, dtype_of<A>}, in.device());
    run_reduce_stages(reduce::KeepMoments<A>{}, Elements<T>{in.data<T>()}, out, attr);
  });
  return out;
}

void centre(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  const Tensor of = moments(in[0], attr);
  visit_floating(out.dtype(), [&]<class T>() {
    using A = compute_t<T>;
    const reduce::Centred<A, T> centred{static_cast<A>(2.0 / attr.divisor)};
    elementwise<T(T, A, A, T)>(centred, out, in[0], spread_field(of, attr, reduce::kMomentsFields, reduce::kMeanField),
                               spread_field(of, attr, reduce::kMomentsFields, reduce::kRestField),
                               spread_field(in[1], attr, 1, 0));
  });
}

}  // namespace adjoint::cuda

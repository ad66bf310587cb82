// Means and variances on CUDA.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

#include <limits>

namespace adjoint::cuda {
namespace {

template <class T>
struct RoundVariance {
  reduce::Variance<compute_t<T>, T> rule;
  __device__ T operator()(compute_t<T> squares) const { return rule.finish({0, 0, 0, squares}); }
};
template <class T>
struct Round {
  __device__ T operator()(compute_t<T> x) const { return convert<T>(x); }
};

}  // namespace

void variance(std::span<const Tensor> in, Tensor& out, const VarianceAttr& attr) {
  const double divisor = attr.reduce.divisor;
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0 / divisor);
  }
  visit_floating(in[0].dtype(), [&]<class T>() {
    const reduce::Variance<compute_t<T>, T> rule(divisor, attr.root);
    run_reduce_stages(rule, Elements<T>{in[0].data<T>()}, out, attr.reduce);
  });
}

void mean_and_variance(std::span<const Tensor> in, std::span<Tensor> out, const VarianceAttr& attr) {
  const double divisor = attr.reduce.divisor;
  if (in[0].numel() == 0) {
    for (Tensor& result : out) result.raw_mutable_data();
    fill(out[0], 0.0 / divisor);
    return fill(out[1], std::numeric_limits<double>::quiet_NaN());
  }
  const Tensor of = moments(in[0], attr.reduce);
  const std::int64_t numel = out[0].numel();
  const auto field = [&](std::int64_t at) { return of.view_as({numel}, {reduce::kMomentsFields}, at); };
  Tensor variances = out[0].view_as({numel}, {1}, 0), means = out[1].view_as({numel}, {1}, 0);
  visit_floating(in[0].dtype(), [&]<class T>() {
    using A = compute_t<T>;
    elementwise<T(A)>(RoundVariance<T>{{divisor, attr.root}}, variances, field(reduce::kSquaresField));
    elementwise<T(A)>(Round<T>{}, means, field(reduce::kMeanField));
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

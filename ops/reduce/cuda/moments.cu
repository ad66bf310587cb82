// Means and variances on CUDA.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

#include <limits>

namespace adjoint::cuda {
namespace {

template <class T, class A>
struct RoundVariance {
  reduce::Variance<A, T> rule;
  __device__ T operator()(A squares) const { return rule.finish({0, 0, 0, squares}); }
};
template <class T, class A>
struct Round {
  __device__ T operator()(A x) const { return convert<T>(x); }
};

// f.operator()<T, A>() for elements of type T. Squares may exceed float32's range while their root does not, so a root
// is computed in float64.
template <class F>
void visit_variance(DType dtype, bool root, F&& f) {
  visit_floating(dtype, [&]<class T>() {
    root ? f.template operator()<T, double>() : f.template operator()<T, compute_t<T>>();
  });
}

template <class T, class A>
Tensor moments_in(const Tensor& in, const ReduceAttr& attr) {
  Tensor out = make_tensor({Shape{result_numel(attr), reduce::kMomentsFields}, dtype_of<A>}, in.device());
  run_reduce_stages(reduce::KeepMoments<A>{}, Elements<T>{in.data<T>()}, out, attr);
  return out;
}

}  // namespace

void variance(std::span<const Tensor> in, Tensor& out, const VarianceAttr& attr) {
  const double divisor = attr.reduce.divisor;
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0 / divisor);
  }
  visit_variance(in[0].dtype(), attr.root, [&]<class T, class A>() {
    const reduce::Variance<A, T> rule(divisor, attr.root);
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
  const std::int64_t numel = out[0].numel();
  Tensor variances = out[0].view_as({numel}, {1}, 0), means = out[1].view_as({numel}, {1}, 0);
  visit_variance(in[0].dtype(), attr.root, [&]<class T, class A>() {
    const Tensor of = moments_in<T, A>(in[0], attr.reduce);
    const auto field = [&](std::int64_t at) { return of.view_as({numel}, {reduce::kMomentsFields}, at); };
    elementwise<T(A)>(RoundVariance<T, A>{{divisor, attr.root}}, variances, field(reduce::kSquaresField));
    elementwise<T(A)>(Round<T, A>{}, means, field(reduce::kMeanField));
  });
}

Tensor moments(const Tensor& in, const ReduceAttr& attr) {
  Tensor out;
  visit_floating(in.dtype(), [&]<class T>() { out = moments_in<T, compute_t<T>>(in, attr); });
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

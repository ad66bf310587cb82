#include <adjoint/ops/norm/running.h>

namespace adjoint::cpu {

void follow_statistics(std::span<const Tensor> in, std::span<Tensor> out, const FollowAttr& attr) {
  visit_statistics(in[0].dtype(), in[2].dtype(), [&]<class T, class A>() {
    const Follow<T, A> follow(in[2], attr);
    const T *const mean = in[0].data<T>(), *const variance = in[1].data<T>();
    T *const mean_to = out[0].mutable_data<T>(), *const variance_to = out[1].mutable_data<T>();
    for (std::int64_t c = 0; c < follow.channels; ++c) follow(c, mean, variance, mean_to, variance_to);
  });
}

void give_statistics(std::span<const Tensor> in, Tensor& out, const DType& dtype) {
  visit_statistics(in[0].dtype(), dtype, [&]<class T, class A>() {
    const T *const mean = in[0].data<T>(), *const variance = in[1].data<T>();
    auto* const to = reinterpret_cast<Statistics<A>*>(out.mutable_data<A>());
    for (std::int64_t c = 0; c < in[0].numel(); ++c) to[c] = {convert<A>(mean[c]), A{0}, convert<A>(variance[c])};
  });
}

}  // namespace adjoint::cpu

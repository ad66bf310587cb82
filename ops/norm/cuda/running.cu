// Running statistics on CUDA: a channel a thread.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/norm/running.h>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 128;

LaunchGeometry geometry_of(std::int64_t channels) {
  return {dim3(static_cast<unsigned>((channels + kThreads - 1) / kThreads)), dim3(kThreads)};
}

template <class T, class A>
__global__ void follow_kernel(Follow<T, A> follow, const T* mean, const T* variance, T* mean_to, T* variance_to) {
  const std::int64_t c = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c < follow.channels) follow(c, mean, variance, mean_to, variance_to);
}

template <class T, class A>
__global__ void give_kernel(std::int64_t channels, const T* mean, const T* variance, Statistics<A>* to) {
  const std::int64_t c = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c < channels) to[c] = {convert<A>(mean[c]), A{0}, convert<A>(variance[c])};
}

}  // namespace

void follow_statistics(std::span<const Tensor> in, std::span<Tensor> out, const FollowAttr& attr) {
  visit_statistics(in[0].dtype(), in[2].dtype(), [&]<class T, class A>() {
    const Follow<T, A> follow(in[2], attr);
    launch(follow_kernel<T, A>, geometry_of(follow.channels), in[0].device().index, follow, in[0].data<T>(),
           in[1].data<T>(), out[0].mutable_data<T>(), out[1].mutable_data<T>());
  });
}

void give_statistics(std::span<const Tensor> in, Tensor& out, const DType& dtype) {
  visit_statistics(in[0].dtype(), dtype, [&]<class T, class A>() {
    launch(give_kernel<T, A>, geometry_of(in[0].numel()), in[0].device().index, in[0].numel(), in[0].data<T>(),
           in[1].data<T>(), static_cast<Statistics<A>*>(out.raw_mutable_data()));
  });
}

}  // namespace adjoint::cuda
